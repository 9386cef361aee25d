//! Whisper's plan on the fast path: compared with openai-whisper, with the reference path, and with
//! itself in other batches and threads.

use pelton_cpu::Cpu;
use pelton_testing::speech;

#[test]
fn equals_openai_whisper_with_80_mels() {
    speech::equals_the_oracle(&Cpu::new(2), 80);
}

#[test]
fn equals_openai_whisper_with_128_mels() {
    speech::equals_the_oracle(&Cpu::new(2), 128);
}

#[test]
fn equals_reference() {
    speech::equals_reference(&Cpu::new(2), &Cpu::reference(), [1e-5, 1e-3, 1e-2]);
}

#[test]
fn batches_windows_and_threads_change_nothing() {
    speech::batches_change_nothing(&[&Cpu::new(1), &Cpu::new(2), &Cpu::new(5)]);
}
