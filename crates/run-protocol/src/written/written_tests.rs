use std::fmt::{Debug, Display};
use std::str::FromStr;
use std::time::Duration;

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;

fn comes_back<T>(value: T) -> Result<(), TestCaseError>
where
    T: Display + FromStr<Err: Debug> + Serialize + DeserializeOwned + PartialEq + Debug,
{
    let text = value.to_string();
    let read = text.parse::<T>();
    prop_assert!(read.is_ok(), "{text}: {read:?}");
    prop_assert_eq!(&read.unwrap(), &value);
    let json = serde_json::to_value(&value).unwrap();
    prop_assert_eq!(&json, &serde_json::Value::String(text));
    prop_assert_eq!(serde_json::from_value::<T>(json).unwrap(), value);
    Ok(())
}

proptest! {
    #[test]
    fn every_written_value_can_be_read_back(
        number in 0..u64::MAX / 2,
        ms in 1..1_000_000_000_000u64,
        milli in 10..100_000_000u64,
    ) {
        comes_back(ByteSize(number))?;
        comes_back(SizeLimit(number))?;
        comes_back(MemoryLimit(if number < 64 << 20 { 0 } else { number }))?;
        comes_back(ProcessLimit(if number < 24 { 0 } else { number }))?;
        comes_back(CountLimit(number))?;
        comes_back(CpuLimit(milli))?;
        comes_back(HumanDuration::Unlimited)?;
        comes_back(HumanDuration::Limited(Duration::from_millis(ms)))?;
        comes_back(HumanDuration::Limited(Duration::from_nanos(ms.max(1_000_000))))?;
        let budget = Budget { tool_calls: Some(ms), time_ms: None, tokens: Some(milli) };
        comes_back(WrittenBudget(budget))?;
        comes_back(WrittenBudget(Budget { time_ms: Some(ms), ..budget }))?;
        comes_back(WrittenBudget(Budget::default()))?;
    }
}

#[test]
fn counts_may_be_numbers_and_sizes_and_durations_need_a_unit() {
    let count = |json| serde_json::from_str::<CountLimit>(json).map(|count| count.0);
    assert_eq!(count("7").unwrap(), 7);
    assert_eq!(count("\"20k\"").unwrap(), 20_000);
    assert!(count("-5").is_err() && count("[1]").is_err() && count("1.5").is_err());
    assert_eq!(serde_json::from_str::<CpuLimit>("1.5").unwrap(), CpuLimit(1500));
    assert!(serde_json::from_str::<SizeLimit>("5").is_err());
    let error = serde_json::from_str::<HumanDuration>("5").unwrap_err().to_string();
    assert!(error.contains("expected a string"), "{error}");
}
