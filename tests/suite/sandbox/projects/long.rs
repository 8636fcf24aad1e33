//! The projects that only `cargo xtask test --full` tests, because they take long: Go and Maven.

use std::path::Path;
use std::process::Command;

use super::registry::{Files, Registry};
use super::{Project, User, write};
use crate::stage::assert_exit;

/// Makes a Go module whose only dependency is in the user's module cache.
fn go_project(user: User) -> Project {
    let project = Project::of(user);
    let made = project.stage.root().join("made");
    let (go_mod, code) = (
        "module example.org/heron\n\ngo 1.19\n",
        "package heron\n\nfunc Legs() int { return 2 }\n",
    );
    let files = ["go.mod", "heron.go"].map(|name| format!("example.org/heron@v1.0.0/{name}"));
    for (file, text) in files.iter().zip([go_mod, code]) {
        write(&made.join(file), text);
    }
    // Go refuses an archive with directories in it.
    let pack = "import sys, zipfile\nwith zipfile.ZipFile('heron.zip', 'w') as archive:\n  [archive.write(file) for file in sys.argv[1:]]";
    let mut packing = Command::new("python3");
    packing.args(["-c", pack]).args(files).current_dir(&made);
    assert_exit(&packing.output().unwrap(), 0);
    let archive = std::fs::read(made.join("heron.zip")).unwrap();
    let registry = Registry::start(|_| {
        let version = br#"{"Version":"v1.0.0","Time":"2026-01-01T00:00:00Z"}"#;
        Files::from([
            ("example.org/heron/@v/list", b"v1.0.0\n".to_vec()),
            ("example.org/heron/@v/v1.0.0.info", version.to_vec()),
            ("example.org/heron/@v/v1.0.0.mod", go_mod.into()),
            ("example.org/heron/@v/v1.0.0.zip", archive),
        ])
    });
    let workspace = project.workspace();
    let manifest = "module example.org/nest\n\ngo 1.19\n\nrequire example.org/heron v1.0.0\n";
    write(&workspace.join("go.mod"), manifest);
    let test = "package nest\n\nimport (\n\t\"testing\"\n\n\t\"example.org/heron\"\n)\n\n\
        func TestItStands(t *testing.T) {\n\tif heron.Legs() != 2 {\n\t\tt.Fatal()\n\t}\n}\n";
    write(&workspace.join("nest_test.go"), test);
    let settings = format!("GOPROXY={}\nGOSUMDB=off\n", registry.address);
    write(&project.home().join(".config/go/env"), &settings);
    project.on_host("go", &["mod", "tidy"]);
    project
}

#[test]
#[ignore = "needs Go: part of cargo xtask test --full"]
fn a_go_project_is_tested_offline_twice_and_the_hosts_cache_stays_as_it_was() {
    let project = go_project(User::ordinary());
    project.passes_cold_and_again("go test -v ./...", "--- PASS: TestItStands");
    assert_eq!(project.caches(), serde_json::json!(["go", "go-build"]));
}

/// Compiles a package, and returns its archive.
fn java_package(made: &Path) -> Vec<u8> {
    write(
        &made.join("Heron.java"),
        "public class Heron { public static int legs() { return 2; } }\n",
    );
    let does = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).current_dir(made).output().unwrap();
        assert_exit(&output, 0);
    };
    does("javac", &["--release", "11", "-d", "classes", "Heron.java"]);
    does("jar", &["cf", "heron.jar", "-C", "classes", "."]);
    std::fs::read(made.join("heron.jar")).unwrap()
}

const ABOUT_HERON: &str = "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
    <groupId>org.example</groupId><artifactId>heron</artifactId><version>1.0.0</version></project>\n";

const ABOUT_NEST: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>org.example</groupId><artifactId>nest</artifactId><version>1</version>
  <properties>
    <maven.compiler.release>11</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency><groupId>org.example</groupId><artifactId>heron</artifactId><version>1.0.0</version></dependency>
    <dependency><groupId>junit</groupId><artifactId>junit</artifactId><version>4.x</version><scope>test</scope></dependency>
  </dependencies>
</project>
"#;

/// Makes a Maven project. Its dependency and Maven's plugins are in the user's repository.
fn maven_project(user: User) -> Project {
    let project = Project::of(user);
    let archive = java_package(&project.stage.root().join("made"));
    let registry = Registry::start(|_| {
        let files = Files::from([
            ("org/example/heron/1.0.0/heron-1.0.0.pom", ABOUT_HERON.into()),
            ("org/example/heron/1.0.0/heron-1.0.0.jar", archive),
        ]);
        // Debian's packages have Maven's plugins, in the layout of a repository.
        Files { directory: Some("/usr/share/maven-repo".into()), ..files }
    });
    let (workspace, home) = (project.workspace(), project.home());
    write(&workspace.join("pom.xml"), ABOUT_NEST);
    let test = "import static org.junit.Assert.assertEquals;\nimport org.junit.Test;\n\
        public class NestTest {\n  @Test public void itStands() { assertEquals(2, Heron.legs()); }\n}\n";
    write(&workspace.join("src/test/java/NestTest.java"), test);
    let settings = format!(
        "<settings><mirrors><mirror><id>ours</id><mirrorOf>*</mirrorOf><url>{}/</url></mirror></mirrors></settings>\n",
        registry.address
    );
    write(&home.join(".m2/settings.xml"), &settings);
    // Java takes the home directory from the password file, not from HOME.
    let user_home = format!("-Duser.home={}", home.display());
    project.on_host("mvn", &["--batch-mode", "--quiet", &user_home, "test"]);
    project
}

#[test]
#[ignore = "needs Maven: part of cargo xtask test --full"]
fn a_maven_project_is_tested_offline_twice_and_the_hosts_repository_stays_as_it_was() {
    let project = maven_project(User::ordinary());
    let test = "rm -r target; mvn --batch-mode --offline test";
    project.passes_cold_and_again(test, "Tests run: 1, Failures: 0, Errors: 0");
    assert_eq!(project.caches(), serde_json::json!(["maven"]));
}
