//! The text of all metrics.

use std::{
    collections::BTreeMap,
    fmt::{Display, Write},
    sync::{Mutex, PoisonError, atomic::Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use pelton::{Status, graph::PAGE};

use super::{
    histogram::{Histogram, SECONDS},
    model::{ModelMetrics, Outcome},
};
use crate::config::MetricNames;

/// Counts of HTTP requests.
pub(crate) struct Http {
    /// By route and status.
    requests: Mutex<BTreeMap<(String, u16), u64>>,
    seconds: Histogram,
    open: std::sync::atomic::AtomicI64,
    /// Requests that are being answered.
    running: std::sync::atomic::AtomicI64,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            requests: Mutex::default(),
            seconds: Histogram::new(SECONDS),
            open: Default::default(),
            running: Default::default(),
        }
    }
}

impl Http {
    pub(crate) fn connections(&self, change: i64) {
        self.open.fetch_add(change, Ordering::Relaxed);
    }

    /// Counts a request that begins.
    pub(crate) fn begin(&self) {
        self.running.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that have begun and not ended.
    pub(crate) fn running(&self) -> i64 {
        self.running.load(Ordering::Relaxed)
    }

    pub(crate) fn end(&self, route: &str, status: u16, seconds: f64) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.seconds.observe(seconds);
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        *requests.entry((route.to_owned(), status)).or_default() += 1;
    }
}

/// The load of a model at the moment; zeros if it is not loaded.
#[derive(Default)]
pub(crate) struct Gauges {
    pub(crate) loaded: bool,
    pub(crate) status: Status,
    /// LoRA adapters that requests can name.
    pub(crate) loras: usize,
    /// Those of each replica of a model of text.
    pub(crate) replicas: Vec<ReplicaGauges>,
}

/// One replica of a model at the moment.
pub(crate) struct ReplicaGauges {
    /// Whether it answers.
    pub(crate) up: bool,
    /// Its requests, those that wait included.
    pub(crate) requests: usize,
    /// Its devices, and the bytes that it needs there.
    pub(crate) devices: Vec<(String, u64)>,
}

impl Gauges {
    /// The part of the pages that running sequences use, 0 to 1.
    fn usage(&self) -> f64 {
        let (mut used, mut total) = (0, 0);
        for pages in &self.status.pages {
            used += pages.total - pages.free - pages.evictable;
            total += pages.total;
        }
        if total == 0 { 0.0 } else { used as f64 / total as f64 }
    }

    /// Pages of the largest cache group.
    fn pages(&self) -> usize {
        self.status.pages.iter().map(|pages| pages.total).max().unwrap_or(0)
    }
}

/// A label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

struct Writer<'a> {
    out: String,
    prefix: &'static str,
    models: &'a [(String, std::sync::Arc<ModelMetrics>, Gauges)],
    /// Whether models have the label `engine` too.
    engine: bool,
}

impl Writer<'_> {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let prefix = self.prefix;
        // writing to a string does not fail
        let _ = writeln!(self.out, "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}");
    }

    fn labels(&self, model: &str) -> String {
        let model = escaped(model);
        match self.engine {
            true => format!("model_name=\"{model}\",engine=\"0\""),
            false => format!("model=\"{model}\""),
        }
    }

    fn values<V: Display>(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        value: impl Fn(&ModelMetrics, &Gauges) -> V,
    ) {
        self.head(name, kind, help);
        for (model, metrics, gauges) in self.models {
            let labels = self.labels(model);
            let _ =
                writeln!(self.out, "{}{name}{{{labels}}} {}", self.prefix, value(metrics, gauges));
        }
    }

    /// A gauge with values of each replica, each of which has further labels.
    fn replicas(
        &mut self,
        name: &str,
        help: &str,
        of: impl Fn(&ReplicaGauges) -> Vec<(String, u64)>,
    ) {
        self.head(name, "gauge", help);
        for (model, _, gauges) in self.models {
            for (replica, one) in gauges.replicas.iter().enumerate() {
                for (more, value) in of(one) {
                    let labels = self.labels(model);
                    let _ = writeln!(
                        self.out,
                        "{}{name}{{{labels},replica=\"{replica}\"{more}}} {value}",
                        self.prefix
                    );
                }
            }
        }
    }

    fn histogram(&mut self, name: &str, help: &str, of: impl Fn(&ModelMetrics) -> &Histogram) {
        self.head(name, "histogram", help);
        for (model, metrics, _) in self.models {
            let labels = self.labels(model);
            of(metrics).write(&mut self.out, &format!("{}{name}", self.prefix), &labels);
        }
    }
}

/// The text of all metrics under some names.
pub(crate) fn render(
    names: MetricNames,
    http: &Http,
    models: &[(String, std::sync::Arc<ModelMetrics>, Gauges)],
) -> String {
    let vllm = names == MetricNames::Vllm;
    let prefix = if vllm { "vllm:" } else { "pelton_" };
    let mut w = Writer { out: String::new(), prefix, models, engine: vllm };
    let load = |name: &'static str, own: &'static str| if vllm { name } else { own };

    let name = load("num_requests_running", "requests_running");
    w.values((name, "gauge", "Requests that run"), |_, g| g.status.running);
    let name = load("num_requests_waiting", "requests_waiting");
    w.values((name, "gauge", "Requests that wait for their start"), |_, g| {
        g.status.queued + g.status.preempted
    });
    let name = load("kv_cache_usage_perc", "kv_cache_usage_ratio");
    let help = "Part of the pages of keys and values that running requests use, 0 to 1";
    w.values((name, "gauge", help), |_, g| g.usage());
    w.head("cache_config_info", "gauge", "Positions of a page and pages, as labels");
    for (model, _, gauges) in models {
        let (labels, pages) = (w.labels(model), gauges.pages());
        let _ = writeln!(
            w.out,
            "{prefix}cache_config_info{{{labels},block_size=\"{PAGE}\",num_gpu_blocks=\"{pages}\"}} 1"
        );
    }
    w.head("lora_requests_info", "gauge", "The time, with the adapters of requests as labels");
    for (model, metrics, gauges) in models.iter().filter(|(.., gauges)| gauges.loras > 0) {
        let labels = w.labels(model);
        let [running, waiting] = metrics.loras.names().map(|names| escaped(&names));
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let _ = writeln!(
            w.out,
            "{prefix}lora_requests_info{{{labels},max_lora=\"{}\",running_lora_adapters=\"{running}\",\
             waiting_lora_adapters=\"{waiting}\"}} {time}",
            gauges.loras
        );
    }
    if vllm {
        let name = "gpu_cache_usage_perc";
        w.values((name, "gauge", help), |_, g| g.usage());
    } else {
        w.values(("model_loaded", "gauge", "Whether the model is loaded"), |_, g| {
            u8::from(g.loaded)
        });
        w.values(("queued_tokens", "gauge", "Prompt tokens of waiting requests"), |_, g| {
            g.status.queued_tokens
        });
        w.values(("failed_passes_total", "counter", "Passes that failed"), |_, g| {
            g.status.failed_passes
        });
        w.values(("cached_pages", "gauge", "Pages that later prompts can share"), |_, g| {
            g.status.pages.iter().map(|pages| pages.cached).max().unwrap_or(0)
        });
        w.replicas("device_memory_bytes", "Bytes that a replica needs on a device", |one| {
            let of_device = |(device, bytes): &(String, u64)| {
                (format!(",device=\"{}\"", escaped(device)), *bytes)
            };
            one.devices.iter().map(of_device).collect()
        });
        w.replicas("replica_up", "Whether a replica answers", |one| {
            vec![(String::new(), one.up.into())]
        });
        w.replicas("replica_requests", "Requests of a replica, those that wait included", |one| {
            vec![(String::new(), one.requests as u64)]
        });
        w.values(("page_evictions_total", "counter", "Cached pages that were evicted"), |_, g| {
            g.status.evictions
        });
    }
    let name = load("num_preemptions_total", "preemptions_total");
    w.values((name, "counter", "Preemptions of requests"), |_, g| g.status.preemptions);
    let queries = ("prefix_cache_queries_total", "counter", "Prompt tokens looked up in the cache");
    w.values(queries, |_, g| g.status.prefix_lookup_tokens);
    let hits = ("prefix_cache_hits_total", "counter", "Prompt tokens found in the cache");
    w.values(hits, |_, g| g.status.prefix_hit_tokens);
    w.values(("prompt_tokens_total", "counter", "Prompt tokens of ended requests"), |m, _| {
        m.prompt_tokens.load(Ordering::Relaxed)
    });
    w.values(("generation_tokens_total", "counter", "Tokens that were generated"), |m, _| {
        m.generation_tokens.load(Ordering::Relaxed)
    });

    let (name, label) = match vllm {
        true => ("request_success_total", "finished_reason"),
        false => ("requests_total", "outcome"),
    };
    w.head(name, "counter", "Requests that ended, by their end");
    for (model, metrics, _) in models {
        for outcome in Outcome::ALL {
            let (labels, count) = (w.labels(model), metrics.ended(outcome));
            let outcome = outcome.name();
            let _ = writeln!(w.out, "{prefix}{name}{{{labels},{label}=\"{outcome}\"}} {count}");
        }
    }

    let help = "Time from the submission to the first token";
    w.histogram("time_to_first_token_seconds", help, |m| &m.first_token);
    w.histogram("inter_token_latency_seconds", "Time between two tokens", |m| &m.inter_token);
    let help = "Mean time of a token after the first, by request";
    w.histogram("request_time_per_output_token_seconds", help, |m| &m.per_token);
    if vllm {
        w.histogram("time_per_output_token_seconds", "Time between two tokens", |m| &m.inter_token);
    }
    let name = load("e2e_request_latency_seconds", "request_duration_seconds");
    w.histogram(name, "Time from the submission to the end", |m| &m.end_to_end);
    w.histogram("request_queue_time_seconds", "Time in the queue", |m| &m.queue);
    w.histogram("request_prefill_time_seconds", "Time of the prompt", |m| &m.prefill);
    w.histogram("request_decode_time_seconds", "Time after the first token", |m| &m.decode);
    w.histogram("request_prompt_tokens", "Tokens of a prompt", |m| &m.prompt_lengths);
    w.histogram("request_generation_tokens", "Tokens of a text", |m| &m.generation_lengths);

    if !vllm {
        let seconds = |milliseconds: &std::sync::atomic::AtomicU64| {
            milliseconds.load(Ordering::Relaxed) as f64 / 1e3
        };
        w.values(("audio_seconds_total", "counter", "Seconds of audio that were heard"), |m, _| {
            seconds(&m.audio)
        });
        let help = "Seconds that the audio took, without the queue";
        w.values(("audio_compute_seconds_total", "counter", help), |m, _| seconds(&m.audio_time));
        let help = "Seconds that a second of audio took, by request";
        w.histogram("audio_real_time_factor", help, |m| &m.real_time);
        w.head("http_connections", "gauge", "Open connections");
        let open = http.open.load(Ordering::Relaxed);
        let _ = writeln!(w.out, "pelton_http_connections {open}");
        w.head("http_requests_total", "counter", "HTTP requests by route and status");
        let requests = http.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for ((route, status), count) in &*requests {
            let _ = writeln!(
                w.out,
                "pelton_http_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}"
            );
        }
        w.head("http_request_duration_seconds", "histogram", "Time of an HTTP request");
        http.seconds.write(&mut w.out, "pelton_http_request_duration_seconds", "server=\"pelton\"");
    }
    w.out
}
