//! What the fuzz target does, without a fuzzer: over its corpus, and over inputs that a seeded generator makes of it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/drive.rs"]
mod drive;

use drive::drive;

/// Reproducible noise (SplitMix64).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }
}

fn corpus() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/schedule");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn the_corpus_holds() {
    let corpus = corpus();
    assert!(corpus.len() >= 40, "{} seeds", corpus.len());
    assert!(rota_cron::steps().is_some(), "tests are built with assertions, which count");
    corpus.iter().for_each(|seed| drive(seed));
}

/// Pieces that a parser branches on.
const PIECES: [&str; 40] = [
    "*",
    "?",
    "L",
    "W",
    "#",
    "-",
    "/",
    ",",
    " ",
    "\n",
    "H",
    "H(1-9)",
    "LW",
    "L-3",
    "15W",
    "6#3",
    "FRIL",
    "MON-FRI",
    "JAN,JUL",
    "0",
    "1",
    "7",
    "12",
    "29",
    "31",
    "59",
    "60",
    "1970",
    "2199",
    "*/5",
    "0/15",
    "22-2",
    "@daily",
    "..",
    ":",
    "2026-10-01",
    "sat-sun",
    "22:00-06:00",
    "12-25",
    "+",
];

#[test]
fn thousands_of_made_up_inputs_hold() {
    let corpus = corpus();
    let mut noise = Noise(7);
    for _ in 0..6_000 {
        let mut input = corpus[noise.below(corpus.len())].clone();
        for _ in 0..=noise.below(6) {
            let place = noise.below(input.len() + 1);
            match noise.below(5) {
                0 => input.insert(place, noise.next().to_le_bytes()[0]),
                1 => {
                    let piece = PIECES[noise.below(PIECES.len())].bytes();
                    input.splice(place..place, piece);
                }
                2 if place < input.len() => {
                    input.remove(place);
                }
                3 if place < input.len() => input[place] = noise.next().to_le_bytes()[0],
                _ => {
                    // Another instant, other flags.
                    for byte in input.iter_mut().take(9) {
                        *byte = noise.next().to_le_bytes()[0];
                    }
                }
            }
        }
        drive(&input);
    }
}
