//! The scheduler on a fake executable, whose text depends on every page, phase and draw.

mod cancel;
mod failures;
mod fairness;
mod harness;
mod heads;
mod pipeline;
mod prefix;
mod pressure;
mod random;
mod requests;
mod scores;
mod session;
mod speculation;
mod states;
mod streams;
mod values;
