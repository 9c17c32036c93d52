//! Checks of the repository itself: `cargo xtask tidy`.
//!
//! Every check is a function from texts to complaints, so that it is tested on small fixtures; this file alone reads
//! the tree and runs `cargo metadata`. Nothing here needs the network.
//!
//! Absent on purpose: a size limit that fails. The largest files and functions are printed, for people to judge.

mod bans;
mod layers;
mod links;
mod size;
mod tree;
mod words;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::tree::Tree;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy(),
        _ => bail!("the only command is `cargo xtask tidy`"),
    }
}

/// Prints the largest and all complaints; says whether there were none.
fn tidy() -> Result<bool> {
    let tree = Tree::read(&tree::root()?)?;
    let packages = layers::packages(&metadata(&tree)?)?;

    let mut complaints = layers::check(&packages);
    complaints.extend(bans::check(&tree));
    complaints.extend(links::check(&tree));
    complaints.extend(words::check(&tree));

    print!("{}", size::report(&tree));
    for complaint in &complaints {
        eprintln!("tidy: {complaint}");
    }
    if complaints.is_empty() {
        println!("tidy: {} files, nothing to complain about", tree.files.len());
    }
    Ok(complaints.is_empty())
}

/// The manifests of the workspace, as cargo reads them.
fn metadata(tree: &Tree) -> Result<serde_json::Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = std::process::Command::new(cargo)
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(&tree.root)
        .output()
        .context("cargo metadata could not be started")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata printed something else than JSON")
}
