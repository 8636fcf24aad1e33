use pretty_assertions::assert_eq;
use tokio::net::TcpListener;

use super::*;

fn read(text: &str) -> Result<(String, u16, Option<String>), UpstreamProxyError> {
    let proxy: UpstreamProxy = text.parse()?;
    Ok((proxy.host, proxy.port, proxy.credentials))
}

#[test]
fn proxies_are_read_as_people_write_them() {
    let plain = |host: &str, port| Ok((host.to_owned(), port, None));
    assert_eq!(read("http://proxy.corp:3128"), plain("proxy.corp", 3128));
    assert_eq!(read("http://proxy.corp:3128/"), plain("proxy.corp", 3128));
    assert_eq!(read("proxy.corp:8080"), plain("proxy.corp", 8080));
    assert_eq!(read("http://10.0.0.1"), plain("10.0.0.1", 80));
    assert_eq!(read("http://[fd00::1]:3128"), plain("fd00::1", 3128));
    let with_password = read("http://ada:p%40ss@proxy.corp:3128").unwrap();
    assert_eq!(with_password.2.unwrap(), STANDARD.encode("ada:p@ss"));
}

#[test]
fn unusable_proxies_are_refused() {
    assert_eq!(read("socks5://proxy:1080"), Err(UpstreamProxyError::Scheme));
    assert_eq!(read("https://proxy:443"), Err(UpstreamProxyError::Scheme));
    for text in ["http://", "http://proxy:port", "http://a b:80", "http://proxy\r\n:80"] {
        assert_eq!(read(text), Err(UpstreamProxyError::Authority), "{text}");
    }
}

#[test]
fn a_password_is_not_shown() {
    let proxy: UpstreamProxy = "http://ada:secret@proxy.corp:3128".parse().unwrap();
    assert_eq!(format!("{proxy:?}"), "UpstreamProxy(proxy.corp:3128)");
}

#[tokio::test]
async fn a_proxy_is_asked_by_name_and_what_follows_its_answer_is_kept() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        let mut heads = Vec::new();
        for answer in ["HTTP/1.1 200 OK\r\nVia: x\r\n\r\nhello", "HTTP/1.1 407 Who?\r\n\r\n"] {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 1024];
            let length = client.read(&mut head).await.unwrap();
            heads.push(String::from_utf8(head[..length].to_vec()).unwrap());
            client.write_all(answer.as_bytes()).await.unwrap();
        }
        heads
    });
    let proxy: UpstreamProxy = "http://a:b@unused:1".parse().unwrap();
    let target = ConnectTarget { host: "api2.cursor.sh".parse().unwrap(), port: 443 };
    let stream = TcpStream::connect(address).await.unwrap();
    let mut stream = proxy.ask(stream, &target).await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "hello");
    let stream = TcpStream::connect(address).await.unwrap();
    let error = proxy.ask(stream, &target).await.unwrap_err();
    assert_eq!(error.to_string(), "it answered HTTP/1.1 407 Who?");
    let expected = format!(
        "CONNECT api2.cursor.sh:443 HTTP/1.1\r\nHost: api2.cursor.sh:443\r\n\
         Proxy-Authorization: Basic {}\r\n\r\n",
        STANDARD.encode("a:b")
    );
    assert_eq!(serving.await.unwrap()[0], expected);
}
