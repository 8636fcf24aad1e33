use super::*;
use crate::config::Config;

fn parsed(text: &str) -> Result<Config, String> {
    Config::parse(&format!("[[hooks]]\n{text}\n")).map_err(|error| error.to_string())
}

#[test]
fn a_hook_has_one_action_and_at_least_one_event() {
    let config = parsed("on = ['ended']\ncommand = ['~/bin/tell', 'x']\ntimeout = '5s'").unwrap();
    let hook = config.hooks[0].hook(Path::new("/home/ada"));
    assert_eq!(hook.timeout, Duration::from_secs(5));
    let words = ["/home/ada/bin/tell", "x"].map(str::to_owned).to_vec();
    assert_eq!(hook.action, HookAction::Command(words));
    for (text, part) in [
        ("on = []\ncommand = ['x']", "`on`"),
        ("on = ['over']\ncommand = ['x']", "unknown variant `over`"),
        ("on = ['ended']", "either a `command` or a `url`"),
        ("on = ['ended']\ncommand = ['x']\nurl = 'http://x'", "either"),
        ("on = ['ended']\ncommand = []", "is empty"),
        ("on = ['ended']\nurl = 'https://example.org'", "curl"),
        ("on = ['ended']\nurl = 'http://x'\nretry = 3", "unknown field"),
    ] {
        let error = parsed(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}
