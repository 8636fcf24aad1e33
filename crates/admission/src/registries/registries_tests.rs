use pretty_assertions::assert_eq;
use proptest::prelude::*;

use super::*;
use crate::host::environment::tests::environment_of;

struct Scene {
    place: tempfile::TempDir,
}

impl Scene {
    fn new(files: &[(&str, &str)]) -> Self {
        let scene = Self { place: tempfile::tempdir().unwrap() };
        fs::create_dir(scene.at("workspace")).unwrap();
        files.iter().for_each(|(path, text)| scene.write(&format!("home/{path}"), text));
        scene
    }

    fn at(&self, path: &str) -> PathBuf {
        self.place.path().canonicalize().unwrap().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    fn find(&self, variables: &[(&str, &str)]) -> Registries {
        let (home, path) = (self.at("home"), self.at("bin"));
        let mut all = vec![("HOME", home.as_path()), ("PATH", path.as_path())];
        all.extend(variables.iter().map(|(name, value)| (*name, Path::new(*value))));
        Registries::find(&environment_of(&all), &self.at("workspace"))
    }
}

fn names(registries: &Registries) -> Vec<String> {
    registries.hosts.iter().map(ToString::to_string).collect()
}

#[test]
fn a_user_without_settings_has_no_registries() {
    assert_eq!(Scene::new(&[]).find(&[]), Registries::default());
}

#[test]
fn every_tool_s_settings_are_found_and_a_variable_wins_over_a_file() {
    let scene = Scene::new(&[
        (".npmrc", "registry=https://file.example.org/\n@a:registry=https://a.example.org/\n"),
        (
            ".cargo/config.toml",
            "[registries.team]\nindex = \"sparse+https://cargo.example.org/\"\n",
        ),
        (
            ".cargo/registry/index/index.example.org-0123456789abcdef/config.json",
            r#"{"dl":"https://dl.example.org"}"#,
        ),
        (".config/pip/pip.conf", "[global]\nindex-url = https://pip.example.org/simple\n"),
        (".config/uv/uv.toml", "index-url = \"https://uv.example.org/simple\"\n"),
        (".config/go/env", "GOPROXY=https://go.example.org\n"),
        (
            ".m2/settings.xml",
            "<mirrors><mirror><id>m</id><mirrorOf>*</mirrorOf><url>https://maven.example.org</url></mirror></mirrors>",
        ),
    ]);
    let found = scene.find(&[
        ("NPM_CONFIG_REGISTRY", "https://ada:s3cret@npm.example.org/"),
        ("GOPROXY", "https://own.example.org,direct"),
    ]);
    let expected = ["a", "npm", "cargo", "index", "dl", "pip", "uv", "go", "own", "maven"];
    assert_eq!(names(&found), expected.map(|name| format!("{name}.example.org")));
    let npmrc = "@a:registry=https://a.example.org/\nregistry=https://npm.example.org/\n";
    assert_eq!(found.home_files[".npmrc"], npmrc);
    let files: Vec<&str> = found.home_files.keys().map(String::as_str).collect();
    assert_eq!(files, [".cargo/config.toml", ".m2/settings.xml", ".npmrc"]);
    let variables: Vec<_> =
        found.variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expected = [
        ("GOPROXY", "https://own.example.org,direct"),
        ("PIP_INDEX_URL", "https://pip.example.org/simple"),
        ("UV_DEFAULT_INDEX", "https://uv.example.org/simple"),
    ];
    assert_eq!(variables, expected);
}

#[test]
fn a_tool_s_own_default_is_an_allowed_host_but_not_a_setting() {
    let scene = Scene::new(&[]);
    let npm = "opt/npm/node_modules/@npmcli/config/lib/definitions/definitions.js";
    scene.write(
        npm,
        "registry: new Definition('registry', { default: 'https://npm.example.org/' })",
    );
    scene.write("opt/npm/bin/npm-cli.js", "");
    scene.write("opt/python/bin/python3", "");
    let pip = "opt/python/lib/python3.12/site-packages/pip/_internal/models/index.py";
    scene.write(
        pip,
        "X = PackageIndex(\"https://pip.example.org/\", file_storage_domain=\"files.example.org\")",
    );
    scene.write("opt/go/bin/go", "");
    scene.write("opt/go/go.env", "GOPROXY=https://go.example.org,direct\n");
    fs::create_dir(scene.at("bin")).unwrap();
    for (name, program) in
        [("npm", "npm/bin/npm-cli.js"), ("python3", "python/bin/python3"), ("go", "go/bin/go")]
    {
        std::os::unix::fs::symlink(scene.at("opt").join(program), scene.at("bin").join(name))
            .unwrap();
    }
    let found = scene.find(&[]);
    let expected = ["npm", "pip", "files", "go"].map(|name| format!("{name}.example.org"));
    assert_eq!(names(&found), expected);
    assert!(found.home_files.is_empty() && found.variables.is_empty());
    // A user with their own registry does not use the default.
    scene.write("home/.npmrc", "registry=https://mirror.example.org/");
    assert_eq!(names(&scene.find(&[]))[0], "mirror.example.org");
}

#[test]
fn settings_inside_the_workspace_do_not_count_even_through_a_link_and_a_fifo_does_not_block() {
    let scene = Scene::new(&[(".config/go/env", "")]);
    scene.write("workspace/npmrc", "registry=https://evil.example.org/");
    scene.write("dotfiles/pip.conf", "[global]\nindex-url=https://pip.example.org/\n");
    fs::create_dir_all(scene.at("home/.pip")).unwrap();
    std::os::unix::fs::symlink(scene.at("workspace/npmrc"), scene.at("home/.npmrc")).unwrap();
    std::os::unix::fs::symlink(scene.at("dotfiles/pip.conf"), scene.at("home/.pip/pip.conf"))
        .unwrap();
    fs::create_dir_all(scene.at("home/.m2")).unwrap();
    nix::unistd::mkfifo(&scene.at("home/.m2/settings.xml"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(names(&scene.find(&[])), ["pip.example.org"]);
}

/// A secret that no other text here contains.
fn secret() -> impl Strategy<Value = String> {
    // With characters that end a user, a host or a value in some of the formats.
    "S3[a-zA-Z0-9/:@#?=%+;,.&!*-]{6,20}7Q"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_secret_from_a_settings_file_is_in_the_result(secret in secret(), user in "[a-z]{1,6}") {
        let url = |host: &str| format!("https://{user}:{secret}@{host}.example.org/x/");
        let query = format!("https://q.example.org/x?token={secret}");
        let toml_string = |text: &str| toml::Value::from(text).to_string();
        let npmrc = format!(
            "registry={}\n@s:registry={query}\n//npm.example.org/:_authToken={secret}\n_auth={secret}\n_password=\"{secret}\"\n",
            url("npm")
        );
        let cargo = format!(
            "[source.m]\nregistry = {}\n[registries.t]\nindex = {}\ntoken = {}\n[registry]\ntoken = {}\n",
            toml_string(&url("cargo")), toml_string(&query), toml_string(&secret), toml_string(&secret)
        );
        let pip = format!("[global]\nindex-url = {}\nextra-index-url =\n  {query}\n  {}\npassword = {secret}\n", url("pip"), url("more"));
        let uv = format!("[[index]]\nname = \"t\"\nurl = {}\n", toml_string(&url("uv")));
        let go = format!("GOPROXY={},{query}|direct\nGOAUTH={secret}\n", url("go"));
        let maven = format!(
            "<settings><servers><server><id>m</id><password>{secret}</password></server></servers><mirrors>\
             <mirror><id>m</id><mirrorOf>*</mirrorOf><url>{}</url></mirror></mirrors></settings>", url("maven")
        );
        let scene = Scene::new(&[
            (".npmrc", &npmrc), (".cargo/config.toml", &cargo), (".config/pip/pip.conf", &pip),
            (".config/uv/uv.toml", &uv), (".config/go/env", &go), (".m2/settings.xml", &maven),
        ]);
        let variables = [
            ("UV_INDEX", format!("t={} {query}", url("uv"))), ("PIP_EXTRA_INDEX_URL", url("pip")),
        ];
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        for found in [scene.find(&[]), scene.find(&variables)] {
            let all = format!("{found:?}");
            for part in secret.split(['@', '/', '?', '#', ',', ' ']).filter(|part| part.len() > 3) {
                prop_assert!(!all.contains(part), "{part} in {all}");
            }
        }
    }
}
