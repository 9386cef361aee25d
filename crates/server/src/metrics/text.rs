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
    /// Whether the names are vLLM's, and models have the label `engine` too.
    vllm: bool,
}

impl Writer<'_> {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let prefix = self.prefix;
        // writing to a string does not fail
        let _ = writeln!(self.out, "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}");
    }

    fn labels(&self, model: &str) -> String {
        let model = escaped(model);
        match self.vllm {
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
    let mut w = Writer { out: String::new(), prefix, models, vllm };
    w.load();
    match vllm {
        true => w.values(("gpu_cache_usage_perc", "gauge", USAGE), |_, g| g.usage()),
        false => w.own_state(),
    }
    w.tokens();
    w.outcomes();
    w.times();
    if !vllm {
        w.audio();
        w.http(http);
    }
    w.out
}

const USAGE: &str = "Part of the pages of keys and values that running requests use, 0 to 1";

/// The metrics by their subjects.
impl Writer<'_> {
    /// A metric that has another name among vLLM's.
    const fn name(&self, of_vllm: &'static str, own: &'static str) -> &'static str {
        if self.vllm { of_vllm } else { own }
    }

    /// The requests of each model, its pages, and the adapters that requests name.
    fn load(&mut self) {
        let name = self.name("num_requests_running", "requests_running");
        self.values((name, "gauge", "Requests that run"), |_, g| g.status.running);
        let name = self.name("num_requests_waiting", "requests_waiting");
        self.values((name, "gauge", "Requests that wait for their start"), |_, g| {
            g.status.queued + g.status.preempted
        });
        let name = self.name("kv_cache_usage_perc", "kv_cache_usage_ratio");
        self.values((name, "gauge", USAGE), |_, g| g.usage());
        let prefix = self.prefix;
        self.head("cache_config_info", "gauge", "Positions of a page and pages, as labels");
        for (model, _, gauges) in self.models {
            let (labels, pages) = (self.labels(model), gauges.pages());
            let _ = writeln!(
                self.out,
                "{prefix}cache_config_info{{{labels},block_size=\"{PAGE}\",num_gpu_blocks=\"{pages}\"}} 1"
            );
        }
        self.head(
            "lora_requests_info",
            "gauge",
            "The time, with the adapters of requests as labels",
        );
        for (model, metrics, gauges) in self.models.iter().filter(|(.., gauges)| gauges.loras > 0) {
            let labels = self.labels(model);
            let [running, waiting] = metrics.loras.names().map(|names| escaped(&names));
            let time =
                SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
            let _ = writeln!(
                self.out,
                "{prefix}lora_requests_info{{{labels},max_lora=\"{}\",running_lora_adapters=\"{running}\",\
                 waiting_lora_adapters=\"{waiting}\"}} {time}",
                gauges.loras
            );
        }
    }

    /// The state of each model and of its replicas that vLLM has no metrics of.
    fn own_state(&mut self) {
        self.values(("model_loaded", "gauge", "Whether the model is loaded"), |_, g| {
            u8::from(g.loaded)
        });
        self.values(("queued_tokens", "gauge", "Prompt tokens of waiting requests"), |_, g| {
            g.status.queued_tokens
        });
        self.values(("failed_passes_total", "counter", "Passes that failed"), |_, g| {
            g.status.failed_passes
        });
        self.values(("cached_pages", "gauge", "Pages that later prompts can share"), |_, g| {
            g.status.pages.iter().map(|pages| pages.cached).max().unwrap_or(0)
        });
        self.replicas("device_memory_bytes", "Bytes that a replica needs on a device", |one| {
            let of_device = |(device, bytes): &(String, u64)| {
                (format!(",device=\"{}\"", escaped(device)), *bytes)
            };
            one.devices.iter().map(of_device).collect()
        });
        self.replicas("replica_up", "Whether a replica answers", |one| {
            vec![(String::new(), one.up.into())]
        });
        let help = "Requests of a replica, those that wait included";
        self.replicas("replica_requests", help, |one| vec![(String::new(), one.requests as u64)]);
        let help = "Cached pages that were evicted";
        self.values(("page_evictions_total", "counter", help), |_, g| g.status.evictions);
    }

    /// The preemptions, the prompts in the cache, and the tokens.
    fn tokens(&mut self) {
        let name = self.name("num_preemptions_total", "preemptions_total");
        self.values((name, "counter", "Preemptions of requests"), |_, g| g.status.preemptions);
        let help = "Prompt tokens looked up in the cache";
        self.values(("prefix_cache_queries_total", "counter", help), |_, g| {
            g.status.prefix_lookup_tokens
        });
        let help = "Prompt tokens found in the cache";
        self.values(("prefix_cache_hits_total", "counter", help), |_, g| {
            g.status.prefix_hit_tokens
        });
        self.values(
            ("prompt_tokens_total", "counter", "Prompt tokens of ended requests"),
            |m, _| m.prompt_tokens.load(Ordering::Relaxed),
        );
        self.values(
            ("generation_tokens_total", "counter", "Tokens that were generated"),
            |m, _| m.generation_tokens.load(Ordering::Relaxed),
        );
    }

    /// The requests that ended, by their end.
    fn outcomes(&mut self) {
        let name = self.name("request_success_total", "requests_total");
        let label = self.name("finished_reason", "outcome");
        let prefix = self.prefix;
        self.head(name, "counter", "Requests that ended, by their end");
        for (model, metrics, _) in self.models {
            for outcome in Outcome::ALL {
                let (labels, count) = (self.labels(model), metrics.ended(outcome));
                let outcome = outcome.name();
                let _ =
                    writeln!(self.out, "{prefix}{name}{{{labels},{label}=\"{outcome}\"}} {count}");
            }
        }
    }

    /// The times and the lengths of requests.
    fn times(&mut self) {
        let help = "Time from the submission to the first token";
        self.histogram("time_to_first_token_seconds", help, |m| &m.first_token);
        let help = "Time between two tokens";
        self.histogram("inter_token_latency_seconds", help, |m| &m.inter_token);
        let mean = "Mean time of a token after the first, by request";
        self.histogram("request_time_per_output_token_seconds", mean, |m| &m.per_token);
        if self.vllm {
            self.histogram("time_per_output_token_seconds", help, |m| &m.inter_token);
        }
        let name = self.name("e2e_request_latency_seconds", "request_duration_seconds");
        self.histogram(name, "Time from the submission to the end", |m| &m.end_to_end);
        self.histogram("request_queue_time_seconds", "Time in the queue", |m| &m.queue);
        self.histogram("request_prefill_time_seconds", "Time of the prompt", |m| &m.prefill);
        self.histogram("request_decode_time_seconds", "Time after the first token", |m| &m.decode);
        self.histogram("request_prompt_tokens", "Tokens of a prompt", |m| &m.prompt_lengths);
        self.histogram("request_generation_tokens", "Tokens of a text", |m| &m.generation_lengths);
    }

    /// The audio that was heard, and its time.
    fn audio(&mut self) {
        let seconds = |milliseconds: &std::sync::atomic::AtomicU64| {
            milliseconds.load(Ordering::Relaxed) as f64 / 1e3
        };
        let help = "Seconds of audio that were heard";
        self.values(("audio_seconds_total", "counter", help), |m, _| seconds(&m.audio));
        let help = "Seconds that the audio took, without the queue";
        self.values(("audio_compute_seconds_total", "counter", help), |m, _| {
            seconds(&m.audio_time)
        });
        let help = "Seconds that a second of audio took, by request";
        self.histogram("audio_real_time_factor", help, |m| &m.real_time);
    }

    /// The connections and the HTTP requests of the server.
    fn http(&mut self, http: &Http) {
        self.head("http_connections", "gauge", "Open connections");
        let open = http.open.load(Ordering::Relaxed);
        let _ = writeln!(self.out, "pelton_http_connections {open}");
        self.head("http_requests_total", "counter", "HTTP requests by route and status");
        let requests = http.requests.lock().unwrap_or_else(PoisonError::into_inner);
        for ((route, status), count) in &*requests {
            let _ = writeln!(
                self.out,
                "pelton_http_requests_total{{route=\"{route}\",status=\"{status}\"}} {count}"
            );
        }
        self.head("http_request_duration_seconds", "histogram", "Time of an HTTP request");
        let name = "pelton_http_request_duration_seconds";
        http.seconds.write(&mut self.out, name, "server=\"pelton\"");
    }
}
