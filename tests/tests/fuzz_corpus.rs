//! Replays the corpora of the fuzz targets.

use lockstep_tests::fuzz::TARGETS;
use lockstep_tests::program::workspace;

#[test]
fn the_corpora_pass_their_targets() -> anyhow::Result<()> {
    for (name, target) in TARGETS {
        let corpus = workspace().join("fuzz/corpus").join(name);
        let mut files: Vec<_> = std::fs::read_dir(&corpus)?.collect::<Result<_, _>>()?;
        files.sort_by_key(std::fs::DirEntry::path);
        assert!(!files.is_empty(), "{} is empty", corpus.display());
        for file in files {
            println!("{}", file.path().display());
            target(&std::fs::read(file.path())?);
        }
    }
    Ok(())
}
