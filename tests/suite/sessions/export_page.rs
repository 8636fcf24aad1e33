//! The exported page in a real browser: nothing in a conversation becomes active.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use store_fixtures::conversation::rich_with_everywhere;

use crate::stage::browser::{Browser, Seen, browser};
use crate::stage::{Stage, assert_exit};

/// A server that the page must not call. It closes every connection.
struct Canary {
    address: SocketAddr,
    n_calls: Arc<AtomicUsize>,
}

impl Canary {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let n_calls = Arc::new(AtomicUsize::new(0));
        let counted = n_calls.clone();
        std::thread::spawn(move || {
            for _call in listener.incoming() {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { address, n_calls }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    fn n_calls(&self) -> usize {
        self.n_calls.load(Ordering::SeqCst)
    }
}

/// One text with everything known to make a browser act.
fn attack(canary: &Canary) -> String {
    let url = |path: &str| canary.url(path);
    let markup = [
        "\"'--></title></style></textarea></pre></code></details></script>".to_owned(),
        format!(
            "<script>document.title='owned';window.owned=1;fetch('{}').catch(()=>0);console.log('owned');alert('script')</script>",
            url("script")
        ),
        format!("<script src={}></script>", url("script.js")),
        format!("<img src={} onerror=alert('img') onload=alert('img')>", url("img.png")),
        "<svg/onload=alert('svg')><animate onbegin=alert('svg') attributeName=x dur=1s></svg>".to_owned(),
        "<iframe src=javascript:alert('iframe')></iframe><iframe srcdoc='<script>alert(1)</script>'></iframe>".to_owned(),
        format!("<object data={}></object><embed src={}>", url("object"), url("embed")),
        format!("<style>@import '{}'; * {{ background: url({}) }}</style>", url("a.css"), url("b.png")),
        format!("<link rel=stylesheet href={}><link rel=prefetch href={}>", url("c.css"), url("d")),
        format!("<meta http-equiv=refresh content='0;url={}'><base href='{}'>", url("refresh"), url("base/")),
        "<input autofocus onfocus=this.onfocus=null;alert('focus')><details open ontoggle=alert('toggle')><summary>x</summary></details>".to_owned(),
        "<a href=javascript:alert('a') style='position:fixed;inset:0'>x</a><body onload=alert('body')>".to_owned(),
        format!("<form action={}><button autofocus>x</button></form>", url("form")),
        format!("<video src={} poster={} onerror=alert('video')></video>", url("video"), url("poster")),
        "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert('m')&gt;\">".to_owned(),
        "{{constructor.constructor('alert(1)')()}} ${alert(1)} &lt;script&gt;alert(1)&lt;/script&gt;".to_owned(),
    ];
    let markdown = [
        "[link](javascript:alert('md'))".to_owned(),
        "[link](JaVa&#x0A;ScRiPt&colon;alert('md') \"'onmouseover=alert('title')\")".to_owned(),
        "[link](data:text/html,<script>alert('data')</script>) [link](vbscript:x) [link](file:///etc/passwd)".to_owned(),
        "<javascript:alert('auto')> [ref] [ref][ref]".to_owned(),
        format!("![image]({}) ![image](javascript:alert('mdimg')) ![\"onerror=\"alert(1)](x)", url("md.png")),
        "[a](https://127.0.0.1:1/\"onmouseover=\"alert('href'))".to_owned(),
        "\n\n[ref]: javascript:alert('ref')".to_owned(),
        "\n\n<script>alert('block')</script>\n\n<div onclick=alert('div')>\n\n</div>".to_owned(),
        "\n\n```\"><script>alert('info')</script>\n</code></pre><script>alert('fence')</script>\n```".to_owned(),
        "\n\n| <img src=x onerror=alert('cell')> | b |\n|---|---|\n| [x](javascript:alert('cell')) | `<b>` |".to_owned(),
    ];
    let controls =
        "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{2066}\u{200f}\u{0}\u{feff}\u{2028}";
    format!("{}{}{controls}", markup.join(" "), markdown.join(" "))
}

/// Lists everything that could be active in the page as the browser parsed it. Each list must be empty.
const REMAINS: &str = r##"
({
  elements: [...document.querySelectorAll(
    'script,img,iframe,object,embed,link,form,input,button,svg,math,video,audio,base,template,frame,portal')]
    .map(element => element.outerHTML.slice(0, 200)),
  attributes: [...document.querySelectorAll('*')].flatMap(element => [...element.attributes]
    .filter(({name}) => !['class', 'id', 'href', 'rel', 'dir', 'lang', 'charset', 'http-equiv', 'content', 'name',
      'aria-label', 'role', 'start', 'open'].includes(name))
    .map(({name, value}) => element.tagName + ' ' + name + '=' + value)),
  links: [...document.querySelectorAll('a')]
    .filter(a => !['http:', 'https:', 'mailto:'].includes(a.protocol) && !/^#m[0-9]+$/.test(a.getAttribute('href')))
    .map(a => a.outerHTML),
  followed: [...document.querySelectorAll('a:not([href^="#"])')]
    .filter(a => a.rel !== 'noopener noreferrer').map(a => a.outerHTML),
  metas: [...document.querySelectorAll('meta')].map(meta => meta.httpEquiv || meta.name || 'charset')
    .filter(name => !['charset', 'Content-Security-Policy', 'referrer', 'viewport', 'color-scheme'].includes(name)),
  controls: [...new Set(document.documentElement.outerHTML.match(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g) || [])],
})
"##;

/// Does everything that a visitor could do to a page without leaving it.
const VISIT: &str = r##"
(async () => {
  document.querySelectorAll('details').forEach(details => details.open = true);
  for (const element of document.querySelectorAll('*')) {
    for (const kind of ['mouseover', 'mouseenter', 'pointerdown', 'focus', 'input', 'toggle', 'animationstart']) {
      element.dispatchEvent(new Event(kind, {bubbles: true}));
    }
    if (!(element instanceof HTMLAnchorElement)) element.click();
  }
  document.querySelectorAll('a[href^="#"]').forEach(a => a.click());
  window.scrollTo(0, document.body.scrollHeight);
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
})()
"##;

fn export(stage: &Stage, attack: &str) -> PathBuf {
    let mut conversation = rich_with_everywhere(attack);
    // A sub-agent would not be the latest conversation.
    conversation.head.parent = None;
    let kept = stage.root().join("hostile.json");
    let mut file = std::fs::File::create(&kept).unwrap();
    cursor_stores::write_json(&conversation, &mut file).unwrap();
    let page = stage.root().join("page.html");
    let args =
        ["sessions", "export", "-", "--from", kept.to_str().unwrap(), "-o", page.to_str().unwrap()];
    let output = stage.output(&args);
    assert_exit(&output, 0);
    page
}

#[test]
fn a_hostile_conversation_is_a_harmless_page() {
    let Some(mut browser) = browser() else { return };
    let (stage, canary) = (Stage::new(), Canary::new());
    let page = export(&stage, &attack(&canary));

    assert_eq!(browser.open(&page), Seen::default());
    let remains = browser.evaluate(REMAINS);
    assert_eq!(
        remains,
        json!({"elements": [], "attributes": [], "links": [], "followed": [], "metas": [], "controls": []})
    );
    browser.evaluate(VISIT);
    assert_eq!(browser.seen(), Seen::default(), "when it was visited");
    assert_eq!(state(&mut browser), json!([true, "undefined", true]));
    assert_eq!(canary.n_calls(), 0);
}

/// Returns whether the page has its own title, the type of the variable that a planted script would set, and whether
/// the page shows that script as text.
fn state(browser: &mut Browser) -> Value {
    browser.evaluate(
        "[document.title.startsWith(\"Fix the parser's lifetime error\"), typeof window.owned, \
         document.body.innerText.includes(\"<script>document.title='owned'\")]",
    )
}

/// The same attack in a page without any protection, to prove that the test would notice it.
#[test]
fn the_test_notices_the_same_attack_in_a_careless_page() {
    let Some(mut browser) = browser() else { return };
    let (stage, canary) = (Stage::new(), Canary::new());
    let page = stage.root().join("careless.html");
    let attack = attack(&canary).replace("<meta http-equiv=refresh", "<meta name=refresh");
    std::fs::write(&page, format!("<!doctype html><title>ours</title><p>{attack}")).unwrap();
    let seen = browser.open(&page);
    assert!(seen.dialogs.len() > 3, "{seen:?}");
    assert!(seen.requests.len() > 3, "{seen:?}");
    assert!(!seen.complaints.is_empty(), "{seen:?}");
    assert_eq!(browser.evaluate("[document.title, window.owned]"), json!(["owned", 1]));
    assert!(canary.n_calls() > 3);
    let remains = browser.evaluate(REMAINS);
    for what in ["elements", "attributes", "links", "controls"] {
        assert!(!remains[what].as_array().unwrap().is_empty(), "{what}");
    }
}
