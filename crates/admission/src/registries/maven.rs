//! Maven's settings: the mirrors in `settings.xml`.

use super::address::{Address, is_name};

/// A mirror from `settings.xml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mirror {
    id: String,
    of: String,
    pub(super) url: Address,
    is_blocked: bool,
}

/// Reads the text of a `settings.xml`. A mirror that is not plain text is left out.
pub(super) fn parse(text: &str) -> Vec<Mirror> {
    let text = without_comments(text);
    let Some(mirrors) = element(&text, "mirrors") else { return Vec::new() };
    let mirrors = mirrors.split("</mirror>").filter_map(|part| part.split_once("<mirror>"));
    let read = |(_, mirror): (&str, &str)| {
        Some(Mirror {
            id: element(mirror, "id").filter(|id| is_name(id, "-._"))?.to_owned(),
            of: element(mirror, "mirrorOf").filter(|of| is_name(of, "-._*,!: "))?.to_owned(),
            url: Address::parse(element(mirror, "url")?)?,
            is_blocked: element(mirror, "blocked") == Some("true"),
        })
    };
    mirrors.filter_map(read).collect()
}

/// The text of a `settings.xml` with only these mirrors.
pub(super) fn file(mirrors: &[Mirror]) -> String {
    let one = |Mirror { id, of, url, is_blocked }: &Mirror| {
        let blocked = if *is_blocked { "<blocked>true</blocked>" } else { "" };
        format!(
            "<mirror><id>{id}</id><mirrorOf>{of}</mirrorOf><url>{url}</url>{blocked}</mirror>\n"
        )
    };
    let mirrors: String = mirrors.iter().map(one).collect();
    format!("<settings><mirrors>\n{mirrors}</mirrors></settings>\n")
}

/// The text of the first such element.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, inside) = text.split_once(&format!("<{name}>"))?;
    Some(inside.split_once(&format!("</{name}>"))?.0.trim())
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("<!--");
    let first = parts.next().unwrap_or_default().to_owned();
    first
        + &parts.filter_map(|part| part.split_once("-->")).map(|(_, rest)| rest).collect::<String>()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_mirrors_are_read() {
        let text = "<settings xmlns=\"x\"><servers><server><id>m</id><password>s3cret</password></server></servers>\n\
            <!-- <mirrors><mirror><id>old</id></mirror></mirrors> -->\n<mirrors><mirror>\n  <id>m</id> <name>ours</name>\n\
            <mirrorOf>external:*,!team</mirrorOf><url>https://ada:s3cret@maven.example.org/all</url></mirror>\n\
            <mirror><id>x</id><mirrorOf>*</mirrorOf><url>https://${env.TOKEN}@maven.example.org/${x}</url></mirror>\n\
            </mirrors></settings>";
        assert_eq!(
            file(&parse(text)),
            "<settings><mirrors>\n<mirror><id>m</id><mirrorOf>external:*,!team</mirrorOf>\
             <url>https://maven.example.org/all</url></mirror>\n</mirrors></settings>\n"
        );
        assert_eq!(parse("<settings/>"), []);
    }
}
