//! The time that dependency caches add to a launch.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::ensure;

use super::figures::Figures;
use super::runs::Runs;
use super::stage::quantile;

/// The most that caches may add.
const MOST_RATIO: f64 = 1.1;
/// The packages of cargo, and those of npm. Each package makes two links.
const FEW: usize = 3;
const MANY: usize = 2_125;
/// npm's cache has a directory for nearly every file.
const NPM_PARTS: [&str; 2] = ["content-v2/sha512", "index-v5"];

impl Runs {
    pub(super) fn launch_with_caches(
        &self,
        figures: &mut Figures,
        n_launches: usize,
    ) -> anyhow::Result<()> {
        let without = self.stage.workspace("launch-without-caches")?;
        let (few, many) = (self.project("few", FEW)?, self.project("many", MANY)?);
        let mut times: [Vec<f64>; 3] = Default::default();
        // The launches alternate, so that other load on the machine affects all of them.
        for _ in 0..n_launches {
            times[0].push(self.supervised_launch(&without, &[])?.1);
            times[1].push(self.supervised_launch(&few.workspace, &few.flags())?.1);
            times[2].push(self.supervised_launch(&many.workspace, &many.flags())?.1);
        }
        let [without, few, many] = times.map(|times| quantile(times, 0.5));
        let section = figures.section(format!(
            "launch with the private caches of cargo and npm, median of {n_launches}"
        ));
        section.row("without caches", without, "ms");
        for (name, with, n_packages) in [("few", few, FEW), ("many", many, MANY)] {
            section.row(format!("with {name} links ({})", n_packages * 4), with, "ms");
            section.row("ratio", with / without, "×").at_most(MOST_RATIO);
        }
        Ok(())
    }

    /// Makes a project whose private cache has its links already.
    fn project(&self, name: &str, n_packages: usize) -> anyhow::Result<Project> {
        let workspace = self.stage.workspace(&format!("launch-with-{name}"))?;
        for manifest in ["Cargo.toml", "package.json"] {
            fs::write(workspace.join(manifest), "")?;
        }
        let tools = self.stage.home().join(name);
        let registry = tools.join("cargo/registry");
        for number in 0..n_packages {
            let shard = format!("{:02x}/{:02x}", number % 256, number / 256);
            write(&registry.join(format!("cache/reg/crate-{number}.crate")))?;
            write(&registry.join(format!("index/reg/.cache/{:02x}/crate-{number}", number % 256)))?;
            for part in NPM_PARTS {
                write(&tools.join(format!("npm/_cacache/{part}/{shard}/package-{number}")))?;
            }
        }
        let set = |variable: &str, tool: &str| format!("{variable}={}", tools.join(tool).display());
        let variables = [set("CARGO_HOME", "cargo"), set("npm_config_cache", "npm")];
        let project = Project { workspace, variables };
        let (run, _) = self.supervised_launch(&project.workspace, &project.flags())?;
        let journal = fs::read_to_string(self.run_directory(&run).join("events.jsonl"))?;
        ensure!(journal.contains(r#""caches":["cargo","npm"]"#), "the run has no caches");
        Ok(project)
    }
}

struct Project {
    workspace: PathBuf,
    variables: [String; 2],
}

impl Project {
    fn flags(&self) -> [&str; 4] {
        let [cargo, npm] = &self.variables;
        ["--env", cargo, "--env", npm]
    }
}

fn write(path: &Path) -> anyhow::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    Ok(fs::write(path, "x")?)
}
