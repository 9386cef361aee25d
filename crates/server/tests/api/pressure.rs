//! Keys, limits, origins, full queues.

use std::{sync::Mutex, time::Duration};

use pelton_server::{ApiKey, Config, Error, Server};
use serde_json::json;

use crate::harness::{config, start};

fn keys(config: &mut Config) {
    config.keys = ApiKey::parse("alice first-secret\nbob second-secret\n").unwrap();
}

#[test]
fn api_keys() {
    let server = start(keys);
    let body = json!({"prompt": "Once", "max_tokens": 1}).to_string();
    let send =
        |headers: &[(&str, &str)]| server.send("POST", "/v1/completions", headers, body.as_bytes());
    for headers in [
        &[][..],
        &[("authorization", "Bearer wrong")],
        &[("authorization", "Bearer first-secre")],
        &[("authorization", "Bearer first-secret2")],
        &[("authorization", "first-secret")],
        &[("x-api-key", "")],
    ] {
        let answer = send(headers);
        assert_eq!(answer.status, 401, "{headers:?}");
        assert_eq!(answer.json()["error"]["type"], "authentication_error");
        assert!(!answer.body.contains("secret"));
    }
    for headers in [
        [("authorization", "Bearer first-secret")],
        [("authorization", "bearer second-secret")],
        [("x-api-key", "second-secret")],
    ] {
        assert_eq!(send(&headers).status, 200, "{headers:?}");
    }
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.get("/metrics").status, 401);
    assert_eq!(server.get("/v1/models").status, 401);
}

/// Where there are admin keys, no other key loads or unloads models, by any API.
#[test]
fn admin_keys() {
    let admin = |config: &mut Config| {
        config.admin_keys = ApiKey::parse("root admin-secret\n").unwrap();
    };
    for has_keys in [true, false] {
        let server = start(|config| {
            if has_keys {
                keys(config);
            }
            admin(config);
        });
        let send = |path: &str, secret: &str, body: serde_json::Value| {
            let headers = [("x-api-key", secret)];
            let headers = if secret.is_empty() { &[][..] } else { &headers };
            server.send("POST", path, headers, body.to_string().as_bytes())
        };
        let model = || json!({"model": "built-in"});
        let user = if has_keys { "first-secret" } else { "" };
        let refusal = if has_keys { 403 } else { 401 };
        for path in ["/models/load", "/models/unload"] {
            assert_eq!(send(path, "", model()).status, 401);
            assert_eq!(send(path, "wrong", model()).status, 401);
            let refused = send(path, user, model());
            assert_eq!(refused.status, refusal, "{}", refused.body);
        }
        // Ollama's way to unload a model
        let unload = json!({"model": "built-in", "keep_alive": 0});
        let state = || server.send("GET", "/v1/models", &[("x-api-key", "admin-secret")], b"").ok();
        let is_loaded = || state()["data"][0]["status"] == "loaded";
        let completion = || json!({"prompt": "Once", "max_tokens": 1});
        send("/v1/completions", user, completion()).ok();
        assert!(is_loaded(), "{}", state());
        send("/api/generate", user, unload.clone()).ok();
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(is_loaded(), "{}", state());
        send("/v1/completions", "admin-secret", completion()).ok();
        assert_eq!(send("/models/unload", "admin-secret", model()).ok()["unloaded"], true);
        assert!(!is_loaded(), "{}", state());
        send("/models/load", "admin-secret", model()).ok();
        assert!(is_loaded(), "{}", state());
    }
    // a key of both lists may do everything, and without admin keys every key may
    let both = start(|config| {
        keys(config);
        config.admin_keys = ApiKey::parse("bob second-secret\n").unwrap();
    });
    let load = |server: &crate::harness::TestServer, secret: &str| {
        let body = json!({"model": "built-in"}).to_string();
        server.send("POST", "/models/load", &[("x-api-key", secret)], body.as_bytes()).status
    };
    assert_eq!((load(&both, "second-secret"), load(&both, "first-secret")), (200, 403));
    assert_eq!(load(&start(keys), "first-secret"), 200);
}

/// Cached prefixes are shared by requests of the same key only.
#[test]
fn prefixes_of_keys() {
    for share in [false, true] {
        let server = start(|config| {
            keys(config);
            config.share_prefixes = share;
        });
        let prompt = "One day a little cat sat on a mat. ".repeat(12);
        let body = json!({"prompt": prompt, "max_tokens": 1}).to_string();
        let cached = |secret: &str| {
            let headers = [("x-api-key", secret)];
            let json = server.send("POST", "/v1/completions", &headers, body.as_bytes()).ok();
            json["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
        };
        assert_eq!(cached("first-secret"), 0);
        assert!(cached("first-secret") >= 64);
        assert_eq!(cached("second-secret") > 0, share);
    }
}

#[test]
fn limits_of_keys() {
    let server = start(|config| {
        keys(config);
        config.limits.requests_per_minute = Some(2);
    });
    let body = json!({"prompt": "Once", "max_tokens": 1}).to_string();
    let send = |secret: &str| {
        server.send("POST", "/v1/completions", &[("x-api-key", secret)], body.as_bytes())
    };
    assert_eq!((send("first-secret").status, send("first-secret").status), (200, 200));
    let refused = send("first-secret");
    assert_eq!(refused.status, 429);
    assert!(refused.headers["retry-after"].parse::<u64>().unwrap() >= 1);
    assert_eq!(send("second-secret").status, 200);
}

#[test]
fn a_full_queue() {
    let server = start(|config| {
        config.load = config.load.clone().context(1024).max_concurrent(1).queue_requests(1);
    });
    let body = json!({"prompt": "Once", "max_tokens": 100, "ignore_eos": true}).to_string();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let send = || server.send("POST", "/v1/completions", &[], body.as_bytes());
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(send)).collect();
        let answers = threads.into_iter().map(|thread| thread.join().unwrap());
        answers
            .map(|answer| {
                if answer.status == 429 {
                    assert!(answer.headers.contains_key("retry-after"));
                    assert_eq!(answer.json()["error"]["type"], "rate_limit_error");
                }
                answer.status
            })
            .collect()
    });
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&200) && statuses.contains(&429), "{statuses:?}");
}

#[test]
fn origins_and_hosts() {
    let server = start(|config| config.origins = vec!["https://good.example".to_owned()]);
    let body = json!({"prompt": "Once", "max_tokens": 1}).to_string();
    let send =
        |headers: &[(&str, &str)]| server.send("POST", "/v1/completions", headers, body.as_bytes());
    assert_eq!(send(&[("origin", "https://evil.example")]).status, 403);
    let good = send(&[("origin", "https://good.example")]);
    assert_eq!(good.status, 200);
    assert_eq!(good.headers["access-control-allow-origin"], "https://good.example");
    let own = format!("http://{}", server.address);
    assert_eq!(send(&[("origin", &own)]).status, 200);
    assert_eq!(
        good.headers["access-control-expose-headers"],
        "x-request-id, request-id, retry-after"
    );
    let asks = "anthropic-dangerous-direct-browser-access, x-stainless-helper-method, x-title";
    let preflight = [
        ("origin", "https://good.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", asks),
    ];
    let preflight = server.send("OPTIONS", "/v1/completions", &preflight, b"");
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.headers["access-control-allow-headers"], asks);
    assert_eq!(preflight.headers["access-control-max-age"], "7200");
    // a page of the same origin behind a proxy that changes the host
    let proxied = [("origin", "https://chat.example"), ("sec-fetch-site", "same-origin")];
    assert_eq!(send(&proxied).status, 200);
    let other = [("origin", "https://chat.example"), ("sec-fetch-site", "cross-site")];
    let refused = send(&other);
    assert_eq!(refused.status, 403);
    assert!(!refused.headers.contains_key("access-control-allow-origin"));
    // a name that somebody lets point to this machine
    let rebound = send(&[("host", "evil.example:80"), ("origin", "http://evil.example:80")]);
    assert_eq!(rebound.status, 403);
    assert!(rebound.body.contains("--allow-host"), "{}", rebound.body);
    for host in ["localhost:80", "127.0.0.1", "host.docker.internal:8080", "pelton:80"] {
        assert_eq!(send(&[("host", host)]).status, 200, "{host}");
    }
    // off unless told
    let plain = crate::harness::shared();
    let answer = plain.send("GET", "/health", &[], b"");
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
    let answer = plain.send("GET", "/v1/models", &[("origin", "https://good.example")], b"");
    assert_eq!(answer.status, 403);
}

/// A server for everybody refuses names of the web all the same, unless it has keys.
#[test]
fn hosts_of_public_servers() {
    let public = |change: fn(&mut Config)| {
        start(move |config| {
            config.allow_public = true;
            change(config);
        })
    };
    let status = |server: &crate::harness::TestServer, headers: &[(&str, &str)]| {
        server.send("GET", "/health", headers, b"").status
    };
    let plain = public(|_| {});
    assert_eq!(status(&plain, &[("host", "evil.example")]), 403);
    let named = public(|config| config.hosts = vec!["chat.example".to_owned()]);
    assert_eq!(status(&named, &[("host", "chat.example")]), 200);
    assert_eq!(status(&named, &[("origin", "https://chat.example")]), 200);
    assert_eq!(status(&named, &[("host", "evil.example")]), 403);
    let keyed = public(keys);
    assert_eq!(status(&keyed, &[("host", "any.example")]), 200);
}

#[test]
fn refused_configurations() {
    let bind = |change: &dyn Fn(&mut Config)| {
        let mut config = config();
        config.lazy = true;
        change(&mut config);
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(Server::bind(config)).map(|_| ())
    };
    let public = bind(&|config| config.host = "0.0.0.0".to_owned());
    assert!(matches!(&public, Err(Error::Config(text)) if text.contains("public")), "{public:?}");
    let told = bind(&|config| {
        config.host = "0.0.0.0".to_owned();
        config.allow_public = true;
    });
    assert!(told.is_ok(), "{told:?}");
    let keyed = bind(&|config| {
        config.host = "0.0.0.0".to_owned();
        keys(config);
    });
    assert!(keyed.is_ok(), "{keyed:?}");
    let twice = bind(&|config| {
        config.models = vec![pelton_server::ModelConfig::built_in(); 2];
    });
    assert!(matches!(&twice, Err(Error::Config(text)) if text.contains("built-in")), "{twice:?}");
}

#[test]
fn a_model_that_cannot_be_loaded_ends_the_server() {
    let mut config = config();
    config.models = vec![pelton_server::ModelConfig::file("/nothing/here.gguf")];
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let missing = runtime.block_on(async {
        let server = Server::bind(config).await.unwrap();
        server.run(std::future::pending()).await
    });
    assert!(matches!(&missing, Err(Error::Load(text)) if text.contains("here")), "{missing:?}");
}

#[test]
fn identifiers_of_requests() {
    let server = crate::harness::shared();
    let answer = server.send("GET", "/v1/models", &[("x-request-id", "trace-7")], b"");
    assert_eq!(answer.headers["x-request-id"], "trace-7");
    assert_eq!(answer.headers["request-id"], "trace-7");
    let answer = server.send("GET", "/v1/models", &[("x-request-id", "a b<c>")], b"");
    assert!(answer.headers["x-request-id"].starts_with("req-"));
}

/// The request of a key that has none before it is answered before most of another key's.
#[test]
fn keys_take_turns() {
    let server = start(|config| {
        keys(config);
        config.load = config.load.clone().context(512).max_concurrent(1);
    });
    let body = |tokens: usize| {
        json!({"prompt": "Once", "max_tokens": tokens, "ignore_eos": true}).to_string()
    };
    let send = |secret: &str, tokens: usize| {
        let answer = server.send(
            "POST",
            "/v1/completions",
            &[("x-api-key", secret)],
            body(tokens).as_bytes(),
        );
        answer.ok();
        std::time::Instant::now()
    };
    std::thread::scope(|scope| {
        let many: Vec<_> = (0..8).map(|_| scope.spawn(|| send("first-secret", 300))).collect();
        while !server
            .get_as("first-secret", "/metrics")
            .contains("pelton_requests_waiting{model=\"built-in\"} 7")
        {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        let one = scope.spawn(|| send("second-secret", 2)).join().unwrap();
        let later = many.into_iter().map(|thread| thread.join().unwrap()).filter(|end| *end > one);
        assert!(later.count() >= 5);
    });
}

/// 256 requests for 16 slots and 64 places: the others are refused, and none hangs.
#[test]
fn many_requests_at_once() {
    let server = start(|config| {
        config.load = config.load.clone().context(256).max_concurrent(16).queue_requests(64);
    });
    let body = json!({"prompt": "Once", "max_tokens": 128, "ignore_eos": true}).to_string();
    let begun = std::time::Instant::now();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let send = || {
            let answer = server.send("POST", "/v1/completions", &[], body.as_bytes());
            match answer.status {
                429 => assert!(answer.headers["retry-after"].parse::<u64>().unwrap() >= 1),
                _ => assert_eq!(answer.ok()["usage"]["completion_tokens"], 128),
            }
            answer.status
        };
        let threads: Vec<_> = (0..256).map(|_| scope.spawn(send)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!(count(200) + count(429), 256, "{statuses:?}");
    assert!(count(200) >= 64 && count(429) >= 1, "{} and {}", count(200), count(429));
    assert!(begun.elapsed() < std::time::Duration::from_secs(60));
    let metrics = server.get("/metrics").body;
    for gauge in ["pelton_requests_running", "pelton_requests_waiting"] {
        assert!(metrics.contains(&format!("{gauge}{{model=\"built-in\"}} 0\n")), "{metrics}");
    }
}

/// The requests of a key with a higher priority start before those that wait longer.
#[test]
fn priorities_of_keys() {
    let server = start(|config| {
        config.keys =
            ApiKey::parse("low low-secret priority=-1\nhigh high-secret priority=5\n").unwrap();
        config.load = config.load.clone().context(512).max_concurrent(1);
    });
    let send = |secret: &str, tokens: usize| {
        let body = json!({"prompt": "Once", "max_tokens": tokens, "ignore_eos": true}).to_string();
        let headers = [("x-api-key", secret)];
        server.send("POST", "/v1/completions", &headers, body.as_bytes()).ok();
    };
    let waits = |name: &str, count: usize| {
        let line = format!("pelton_requests_{name}{{model=\"built-in\"}} {count}");
        while !server.get_as("low-secret", "/metrics").lines().any(|other| other == line) {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let ends = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let (send, ends) = (&send, &ends);
        let end = |secret: &'static str| {
            scope.spawn(move || {
                send(secret, if secret == "high-secret" { 1 } else { 100 });
                ends.lock().unwrap().push(secret);
            });
        };
        scope.spawn(|| send("low-secret", 1500));
        waits("running", 1);
        for count in 1..=3 {
            end("low-secret");
            waits("waiting", count);
        }
        end("high-secret");
        waits("waiting", 4);
    });
    assert_eq!(*ends.lock().unwrap(), ["high-secret", "low-secret", "low-secret", "low-secret"]);
}
