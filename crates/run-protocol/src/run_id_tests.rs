use super::*;

#[test]
fn an_id_is_read_back_and_sorts_by_time() {
    let first = RunId::generate();
    let second = RunId::generate();
    assert!(first < second);
    assert_eq!(first.to_string().parse(), Ok(first));
    assert!(first.created_ms() > 1_700_000_000_000);
}

#[test]
fn only_a_version_7_uuid_in_plain_form_is_accepted() {
    for text in
        ["", "..", "6f1d9c3e-5a52-4f0b-9a1e-2b7c8d9e0f11", "0191D0F6-0000-7000-8000-000000000000"]
    {
        assert!(text.parse::<RunId>().is_err(), "{text}");
    }
}
