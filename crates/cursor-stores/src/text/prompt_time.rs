//! Reads times as Cursor writes them into prompts: `Tuesday, Jul 21, 2026, 3:04 PM (UTC+2)`.

use jiff::civil::Date;

use crate::model::Moment;

/// A longer text is not a time.
const MAX_BYTES: usize = 200;
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Reads a time, in any order of its parts. A time without a zone is known only to within a day, so it does not count
/// as recorded.
pub(crate) fn parse_prompt_time(text: &str) -> Option<Moment> {
    if text.len() > MAX_BYTES {
        return None;
    }
    let tokens = tokens(text);
    let (offset_minutes, tokens) = take_offset(tokens);
    let (time, tokens) = take_time(tokens);
    let days = find_date(&tokens)?;
    let time = time?;
    let seconds = days * 86_400 + time.seconds - offset_minutes.unwrap_or(0) * 60;
    let at_ms = seconds * 1000 + time.millis;
    Some(match offset_minutes {
        Some(_) => Moment::recorded(at_ms),
        None => Moment::interpolated(at_ms),
    })
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number { value: i64, n_digits: usize },
    Word(String),
    Sign(char),
}

struct Time {
    seconds: i64,
    millis: i64,
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let run = |is_part: fn(char) -> bool| rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let length = if first.is_ascii_digit() {
            let length = run(|c| c.is_ascii_digit());
            // A number that is too long for an i64 is not part of a time.
            let value = rest[..length].parse().unwrap_or(i64::MAX);
            tokens.push(Token::Number { value, n_digits: length });
            length
        } else if first.is_ascii_alphabetic() {
            let length = run(|c| c.is_ascii_alphabetic());
            tokens.push(Token::Word(rest[..length].to_ascii_lowercase()));
            length
        } else {
            match first {
                '\u{2212}' | '\u{2013}' => tokens.push(Token::Sign('-')),
                c if c.is_whitespace() || c == '(' || c == ')' || c == ',' => {}
                c => tokens.push(Token::Sign(c)),
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// `UTC+2`, `GMT-03:30`, `UTC`, `Z`, or `+0200` after a time of day.
fn take_offset(mut tokens: Vec<Token>) -> (Option<i64>, Vec<Token>) {
    let is_zone = |token: &Token| matches!(token, Token::Word(word) if word == "utc" || word == "gmt" || word == "z");
    if let Some(at) = tokens.iter().position(is_zone) {
        let rest = tokens.split_off(at);
        let (minutes, n_used) = signed_offset(&rest[1..]).unwrap_or((0, 0));
        tokens.extend(rest.into_iter().skip(1 + n_used));
        return (Some(minutes), tokens);
    }
    let last_colon = tokens.iter().rposition(|token| *token == Token::Sign(':'));
    let starts = (0..tokens.len()).filter(|start| {
        // In `14:05:06+02:00` the last colon belongs to the offset.
        last_colon.is_some_and(|colon| *start > colon || *start + 2 == colon)
    });
    for start in starts.collect::<Vec<_>>() {
        if let Some((minutes, n_used)) = signed_offset(&tokens[start..])
            && tokens[..start].contains(&Token::Sign(':'))
        {
            tokens.drain(start..start + n_used);
            return (Some(minutes), tokens);
        }
    }
    (None, tokens)
}

/// Reads `+2`, `-03:30` or `+0200` at the front. Returns how many tokens it used, too.
fn signed_offset(tokens: &[Token]) -> Option<(i64, usize)> {
    let sign = match tokens.first()? {
        Token::Sign('+') => 1,
        Token::Sign('-') => -1,
        _ => return None,
    };
    let (hours, minutes, n_used) = match &tokens[1..] {
        [
            Token::Number { value: hours, n_digits: 1 | 2 },
            Token::Sign(':'),
            Token::Number { value: minutes, n_digits: 2 },
            ..,
        ] => (*hours, *minutes, 4),
        [Token::Number { value, n_digits: 3 | 4 }, ..] => (value / 100, value % 100, 2),
        [Token::Number { value: hours, n_digits: 1 | 2 }, ..] => (*hours, 0, 2),
        _ => return None,
    };
    (hours <= 18 && minutes < 60).then_some((sign * (hours * 60 + minutes), n_used))
}

/// `3:04 PM`, `15:04:05.678`, or `3 PM`.
fn take_time(mut tokens: Vec<Token>) -> (Option<Time>, Vec<Token>) {
    let half = tokens.iter().position(
        |token| matches!(token, Token::Word(word) if word == "am" || word == "pm" || word == "a" || word == "p"),
    );
    let is_afternoon =
        half.map(|at| matches!(&tokens[at], Token::Word(word) if word.starts_with('p')));
    let colon = tokens.iter().position(|token| *token == Token::Sign(':'));
    let start = match (colon, half) {
        (Some(colon), _) => colon.checked_sub(1),
        (None, Some(half)) => half.checked_sub(1),
        (None, None) => None,
    };
    let Some(start) = start else { return (None, tokens) };
    let number = |at: usize| match tokens.get(at) {
        Some(Token::Number { value, n_digits }) => Some((*value, *n_digits)),
        _ => None,
    };
    let after = |at: usize, sign: char| tokens.get(at) == Some(&Token::Sign(sign));
    let Some((hour, _)) = number(start) else { return (None, tokens) };
    let (mut minute, mut second, mut millis, mut end) = (0, 0, 0, start + 1);
    if after(end, ':')
        && let Some((value, _)) = number(end + 1)
    {
        (minute, end) = (value, end + 2);
        if after(end, ':')
            && let Some((value, _)) = number(end + 1)
        {
            (second, end) = (value, end + 2);
            if after(end, '.')
                && let Some((value, n_digits)) = number(end + 1)
            {
                let scale = 10_i64.checked_pow(u32::try_from(n_digits).unwrap_or(u32::MAX));
                millis = scale.map_or(0, |scale| value.saturating_mul(1000) / scale).clamp(0, 999);
                end += 2;
            }
        }
    }
    let hour = match (is_afternoon, hour) {
        (None, 0..24) => hour,
        (Some(false), 1..=12) => hour % 12,
        (Some(true), 1..=12) => hour % 12 + 12,
        // `15:04 PM` is clear enough.
        (Some(true), 13..24) => hour,
        _ => return (None, tokens),
    };
    tokens.drain(start..end);
    if minute > 59 || second > 60 {
        return (None, tokens);
    }
    (Some(Time { seconds: hour * 3600 + minute * 60 + second, millis }), tokens)
}

/// Days since 1970 of `2026-07-21`, `Jul 21, 2026`, `21 July 2026` or `7/21/2026`.
fn find_date(tokens: &[Token]) -> Option<i64> {
    let numbers: Vec<(i64, usize)> = tokens
        .iter()
        .filter_map(|token| match token {
            Token::Number { value, n_digits } => Some((*value, *n_digits)),
            _ => None,
        })
        .collect();
    let named_month = tokens.iter().find_map(|token| match token {
        Token::Word(word) => {
            MONTHS.iter().position(|month| word.starts_with(month)).map(|month| month as i64 + 1)
        }
        _ => None,
    });
    let (year, month, day) = match (named_month, numbers.as_slice()) {
        (Some(month), [(year, 4), (day, 1 | 2), ..] | [(day, 1 | 2), (year, 4), ..]) => {
            (*year, month, *day)
        }
        (None, [(year, 4), (month, 1 | 2), (day, 1 | 2), ..])
        | (None, [(month, 1 | 2), (day, 1 | 2), (year, 4), ..]) => (*year, *month, *day),
        _ => return None,
    };
    days_since_1970(year, month, day)
}

fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    const EPOCH: Date = jiff::civil::date(1970, 1, 1);
    let (month, day) = (i8::try_from(month).ok()?, i8::try_from(day).ok()?);
    let date = Date::new(i16::try_from(year).ok()?, month, day).ok()?;
    (date >= EPOCH).then(|| i64::from((date - EPOCH).get_days()))
}

#[cfg(test)]
#[path = "prompt_time_tests.rs"]
mod tests;
