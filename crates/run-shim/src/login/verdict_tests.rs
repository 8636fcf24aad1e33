use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const NOW: u64 = 1_790_000_000;
const DAY: u64 = 86_400;

/// A token with these claims.
fn jwt(claims: &Value, signature: &str) -> String {
    let part = |text: String| URL_SAFE_NO_PAD.encode(text);
    format!(
        "{}.{}.{}",
        part(json!({"alg": "none"}).to_string()),
        part(claims.to_string()),
        part(signature.to_owned())
    )
}

fn token(account: &str, issued: u64, expires: u64) -> String {
    let claims = json!({"sub": account, "time": issued.to_string(), "exp": expires});
    jwt(&claims, "signature")
}

fn both(token: &str) -> Value {
    json!({"accessToken": token, "refreshToken": token})
}

fn login(value: &Value) -> Login {
    Login::parse(value.to_string().as_bytes()).unwrap()
}

fn judge_plainly(own: &Value, offered: &Value) -> Verdict {
    judge(&login(own), offered.to_string().as_bytes(), |_| false, NOW)
}

/// The user's own login, an hour before it expires.
fn own() -> Value {
    both(&token("me", NOW - DAY, NOW + 3600))
}

fn renewed() -> String {
    token("me", NOW, NOW + DAY)
}

#[track_caller]
fn is_carried(own: &Value, offered: &Value) -> Value {
    match judge_plainly(own, offered) {
        Verdict::Carry(content) => serde_json::from_slice(&content).unwrap(),
        other => panic!("{offered}: {other:?}"),
    }
}

#[test]
fn a_renewal_is_carried_back_with_the_users_other_fields() {
    let with_name = |mut login: Value| {
        login["name"] = json!("ada");
        login
    };
    let (own, new) = (with_name(own()), renewed());
    for offered in [both(&new), with_name(both(&new))] {
        assert_eq!(is_carried(&own, &offered), with_name(both(&new)));
    }
    assert_eq!(judge_plainly(&own, &own), Verdict::Nothing);
    let expired = both(&token("me", NOW - DAY, NOW - 1));
    assert_eq!(is_carried(&expired, &both(&new)), both(&new));
}

#[test]
fn an_access_token_alone_is_renewed_if_the_user_has_no_refresh_token() {
    let own = json!({"accessToken": token("me", NOW - DAY, NOW + 60), "refreshToken": ""});
    assert_eq!(judge_plainly(&own, &own), Verdict::Nothing);
    let offered = json!({"accessToken": renewed(), "refreshToken": ""});
    assert_eq!(is_carried(&own, &offered), offered);
}

#[test]
fn everything_but_a_renewal_is_dropped_with_its_reason() {
    let good = renewed();
    let cases = [
        (LoginDrop::Malformed, json!("x")),
        (LoginDrop::Malformed, json!(null)),
        (LoginDrop::Malformed, json!([both(&good)])),
        (LoginDrop::Malformed, json!({"accessToken": [good], "refreshToken": good})),
        (LoginDrop::Malformed, json!({"accessToken": good, "refreshToken": ""})),
        (LoginDrop::Malformed, json!({"accessToken": good, "refreshToken": "a b"})),
        (LoginDrop::Oversized, both(&"x".repeat(LONGEST_TOKEN + 1))),
        (LoginDrop::OtherShape, json!({})),
        (LoginDrop::OtherShape, json!({"accessToken": good})),
        (LoginDrop::OtherShape, both("opaque-0123456789-opaque-0123456789")),
        (LoginDrop::OtherShape, both(&format!("{good}.more"))),
        (LoginDrop::OtherAccount, both(&token("evil", NOW, NOW + DAY))),
        (LoginDrop::OtherAccount, both(&jwt(&json!({"exp": NOW + DAY, "time": NOW}), "s"))),
        (
            LoginDrop::OtherAccount,
            json!({"accessToken": good, "refreshToken": token("evil", NOW, NOW + DAY)}),
        ),
        (LoginDrop::Replayed, both(&token("me", NOW - 2 * DAY, NOW + DAY))),
        (LoginDrop::Replayed, both(&token("me", NOW, NOW + 3599))),
        (LoginDrop::Replayed, both(&jwt(&json!({"sub": "me"}), "s"))),
        (LoginDrop::OtherFields, json!({"accessToken": good, "refreshToken": good, "x": 1})),
    ];
    for (reason, offered) in cases {
        assert_eq!(judge_plainly(&own(), &offered), Verdict::Drop(reason), "{offered}");
    }
    for bytes in [&b""[..], b"{", b"\xff\xfe", &[b'['; 4000]] {
        let verdict = judge(&login(&own()), bytes, |_| false, NOW);
        assert_eq!(verdict, Verdict::Drop(LoginDrop::Malformed));
    }
}

#[test]
fn an_expired_token_is_not_a_renewal() {
    let own = both(&token("me", NOW - DAY, NOW - 60));
    let offered = both(&token("me", NOW - DAY, NOW - 30));
    assert_eq!(judge_plainly(&own, &offered), Verdict::Drop(LoginDrop::Expired));
}

#[test]
fn a_token_is_renewed_in_the_last_quarter_of_its_life() {
    let of_age = |age: u64| both(&token("me", NOW - age, NOW - age + 40 * DAY));
    let offered = both(&token("me", NOW, NOW + 40 * DAY));
    assert_eq!(judge_plainly(&of_age(29 * DAY), &offered), Verdict::Drop(LoginDrop::NotDue));
    is_carried(&of_age(31 * DAY), &offered);
    // A token without an issue time, in its last hour.
    let left = |left: u64| both(&jwt(&json!({"sub": "me", "exp": NOW + left}), "s"));
    assert_eq!(judge_plainly(&left(3700), &offered), Verdict::Drop(LoginDrop::NotDue));
    is_carried(&left(3500), &offered);
}

#[test]
fn tokens_without_an_expiry_are_accepted_only_if_every_other_field_agrees() {
    let login = |token: &str, name: &str| json!({"accessToken": token, "refreshToken": token, "name": name});
    let own = login("opaque-0123456789", "ada");
    is_carried(&own, &login("opaque-9876543210", "ada"));
    for (reason, offered) in [
        (LoginDrop::OtherFields, login("opaque-9876543210", "eve")),
        (LoginDrop::OtherFields, both("opaque-9876543210")),
        (LoginDrop::OtherShape, login("x", "ada")),
        (LoginDrop::OtherShape, login(&"x".repeat(100), "ada")),
        (LoginDrop::OtherShape, login(&renewed(), "ada")),
    ] {
        assert_eq!(judge_plainly(&own, &offered), Verdict::Drop(reason), "{offered}");
    }
    // A token with an account, but without an expiry time.
    let of = |account: &str, mark: &str| login(&jwt(&json!({"sub": account}), mark), "ada");
    is_carried(&of("me", "one"), &of("me", "two"));
    assert_eq!(
        judge_plainly(&of("me", "one"), &of("evil", "two")),
        Verdict::Drop(LoginDrop::OtherAccount)
    );
}

#[test]
fn a_token_that_the_user_had_before_is_a_replay() {
    let own = both("opaque-0123456789");
    let offered = both("opaque-9876543210").to_string();
    let was_before = |token: &str| token == "opaque-9876543210";
    let verdict = judge(&login(&own), offered.as_bytes(), was_before, NOW);
    assert_eq!(verdict, Verdict::Drop(LoginDrop::Replayed));
}

/// A token for some account and time, of either kind, or a broken token.
fn any_token() -> impl Strategy<Value = Value> {
    let times = (NOW - 3 * DAY..NOW + DAY, NOW - 2 * DAY..NOW + 3 * DAY);
    prop_oneof![
        6 => (prop_oneof![4 => Just("me"), 1 => Just("evil")], times)
            .prop_map(|(account, (issued, expires))| json!(token(account, issued, expires))),
        1 => "[a-z]{1,40}".prop_map(|text| json!(text)),
        1 => any::<u8>().prop_map(|number| json!(number)),
        1 => ".{0,20}".prop_map(|text| json!(text)),
    ]
}

fn any_login() -> impl Strategy<Value = Value> {
    let name = proptest::option::of("[ab]");
    (any_token(), proptest::option::weighted(0.9, any_token()), any::<bool>(), name).prop_map(
        |(access, refresh, is_one, name)| {
            let refresh = if is_one { Some(access.clone()) } else { refresh };
            let mut login = json!({"accessToken": access});
            let fields = login.as_object_mut().unwrap();
            fields.extend(refresh.map(|refresh| ("refreshToken".to_owned(), refresh)));
            fields.extend(name.map(|name| ("name".to_owned(), json!(name))));
            login
        },
    )
}

fn claims(login: &Value, name: &str) -> Option<Claims> {
    Claims::of(login.get(name)?.as_str()?)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn only_due_tokens_are_replaced_by_later_ones_of_the_same_account(own in any_login(), offered in any_login()) {
        let Ok(login) = Login::parse(own.to_string().as_bytes()) else { return Ok(()) };
        let verdict = judge(&login, offered.to_string().as_bytes(), |_| false, NOW);
        let Verdict::Carry(content) = verdict else { return Ok(()) };
        let carried: Value = serde_json::from_slice(&content).unwrap();
        // Only tokens change, and none is lost.
        prop_assert_eq!(&carried["name"], &own["name"]);
        for name in LOGIN_TOKENS {
            prop_assert_eq!(carried.get(name), offered.get(name));
            prop_assert_eq!(carried.get(name).is_some(), own.get(name).is_some());
            if own.get(name) == carried.get(name) {
                continue;
            }
            prop_assert!(carried[name].as_str().is_some_and(|token| token.len() <= LONGEST_TOKEN));
            match (claims(&own, name), claims(&carried, name)) {
                (Some(own), Some(carried)) => {
                    prop_assert!(own.is_of_the_same_account(&carried));
                    prop_assert!(carried.expires() >= own.expires());
                    prop_assert!(carried.expires() > Some(NOW));
                }
                (None, None) => {}
                other => prop_assert!(false, "{:?}", other),
            }
        }
        match claims(&own, "accessToken").and_then(|claims| claims.is_near_its_end(NOW)) {
            Some(is_near) => prop_assert!(is_near),
            None => prop_assert_eq!(offered.get("name"), own.get("name")),
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic_and_are_never_accepted_as_a_login(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let verdict = judge(&login(&own()), &bytes, |_| false, NOW);
        prop_assert!(matches!(verdict, Verdict::Drop(_)));
    }
}
