use super::*;

#[test]
fn login_keys_and_secrets_are_listed_separately() {
    let told = |names: &[&str]| {
        Waiting::Keys { names: names.iter().map(ToString::to_string).collect() }.to_string()
    };
    let login = told(&["CURSOR_API_KEY"]);
    assert!(login.contains("not have the login key CURSOR_API_KEY any more; restart"), "{login}");
    let secret = told(&["DB_PASS"]);
    assert!(secret.contains("not have the secret DB_PASS any more; secrets are"), "{secret}");
    assert!(!secret.contains("login"), "{secret}");
    let both = told(&["DB_PASS", "CURSOR_AUTH_TOKEN", "OTHER"]);
    let words = "the login key CURSOR_AUTH_TOKEN and the secrets DB_PASS and OTHER any more";
    assert!(both.contains(words), "{both}");
}
