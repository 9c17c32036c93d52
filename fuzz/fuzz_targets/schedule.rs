//! Whatever is written as a schedule, asked about at whatever time.
#![no_main]

#[path = "../drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|data: &[u8]| drive::drive(data));
