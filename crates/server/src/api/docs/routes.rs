//! All routes with their fields.
//!
//! A field is `NAME:TYPE`, with `!` before it if it must be there. A type is one of JSON Schema's
//! names, or several with `|` between them, with a range `[LEAST,MOST]`, or `=A,B` for one of some
//! words, or `@NAME` for a schema of `types`. Every field may be null. `*` stands for all options
//! of sampling.

/// A route.
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) about: &'static str,
    /// The fields of the body, in lists that routes share.
    pub(super) fields: &'static [&'static str],
    /// Whether the body is a form with a file.
    pub(super) is_form: bool,
    /// A body that is answered.
    pub(super) example: &'static str,
}

const SAMPLING: &str = "* ignore_eos:boolean logit_bias:@bias cache_salt:string cache_prompt:boolean \
    lora:@loras effort:number[0,1]";
const STOP: &str = "stop:@strings";
const OUTPUT: &str = "response_format:@format structured_outputs:object grammar:string \
    json_schema:object|boolean";
const STREAM: &str = "stream:boolean stream_options:@stream_options";
const CHAT: &str = "model:string !messages:@messages documents:array continue_final_message:boolean \
    add_generation_prompt:boolean enable_thinking:boolean chat_template_kwargs:object \
    reasoning_effort=none,minimal,low,medium,high,xhigh,max max_tokens:integer[-2,4294967295] \
    max_completion_tokens:integer[-2,4294967295] n_predict:integer[-2,4294967295] logprobs:boolean top_logprobs:integer[0,20] \
    tools:@tools tool_choice:string|object parallel_tool_calls:boolean n:integer[1,128] \
    user:string metadata:object store:boolean service_tier:string prediction:@prediction";
const LLAMA_CPP: &str = "n_predict:integer[-2,4294967295] max_tokens:integer[-2,4294967295] \
    n_probs:integer[0,20] return_tokens:boolean stream:boolean";
const OLLAMA: &str = "!model:string stream:boolean options:object format:string|object \
    think:@think keep_alive:string|number logprobs:boolean top_logprobs:integer[0,20]";

const RERANK: &str = "model:string !query:string !documents:array top_n:integer[1,4294967295] \
    return_documents:boolean raw_scores:boolean";
const AUDIO: &str = "model:string !file:@file language:string prompt:string \
    temperature:number[0,1] beam_size:integer[1,5] condition_on_previous_text:boolean hotwords:string \
    keywords:@strings seed:integer[0,9223372036854775807] grammar:string \
    response_format=json,text,srt,verbose_json,vtt";
const OPENAI_AUDIO: &str = "timestamp_granularities:@granularities include:@nothing stream:boolean \
    chunking_strategy:@chunking vad_filter:boolean";

const fn get(path: &'static str, about: &'static str) -> Route {
    Route { method: "get", path, about, fields: &[], is_form: false, example: "" }
}

/// A `POST` without a body.
const fn act(path: &'static str, about: &'static str) -> Route {
    Route { method: "post", ..get(path, about) }
}

const fn form(path: &'static str, about: &'static str, fields: &'static [&'static str]) -> Route {
    Route { method: "post", path, about, fields, is_form: true, example: "" }
}

const fn post(
    path: &'static str,
    about: &'static str,
    fields: &'static [&'static str],
    example: &'static str,
) -> Route {
    Route { method: "post", path, about, fields, is_form: false, example }
}

const MESSAGES: &str = r#"{"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}"#;

/// All routes.
pub(super) const ROUTES: &[Route] = &[
    post(
        "/v1/chat/completions",
        "The next message of a conversation (OpenAI)",
        &[CHAT, SAMPLING, STOP, OUTPUT, STREAM],
        MESSAGES,
    ),
    post(
        "/v1/completions",
        "Texts after prompts (OpenAI)",
        &[
            "model:string !prompt:@prompts suffix:string max_tokens:integer[-2,4294967295] \
             n_predict:integer[-2,4294967295] n:integer[1,128] best_of:integer[1,128] logprobs:integer[0,20] echo:boolean \
             user:string",
            SAMPLING,
            STOP,
            OUTPUT,
            STREAM,
        ],
        r#"{"prompt": "Once upon a time", "max_tokens": 4}"#,
    ),
    post(
        "/v1/responses",
        "A response to items (OpenAI)",
        &[
            "model:string !input:string|array instructions:string \
             max_output_tokens:integer[1,4294967295] reasoning:object text:object tools:array \
             tool_choice:string|object parallel_tool_calls:boolean top_logprobs:integer[0,20] \
             include:string|array previous_response_id:string truncation=auto,disabled metadata:object store:boolean stream:boolean \
             background:boolean user:string",
            SAMPLING,
        ],
        r#"{"input": "Hello", "max_output_tokens": 4}"#,
    ),
    post(
        "/v1/responses/input_tokens",
        "The tokens of a response's prompt (OpenAI)",
        &["model:string !input:string|array instructions:string tools:array \
           tool_choice:string|object previous_response_id:string"],
        r#"{"input": "Hello"}"#,
    ),
    get("/v1/responses/{response_id}", "A stored response (OpenAI)"),
    Route { method: "delete", ..get("/v1/responses/{response_id}", "Forgets a response (OpenAI)") },
    post(
        "/v1/embeddings",
        "Embeddings of texts (OpenAI)",
        &["model:string !input:@prompts encoding_format=float,base64 \
           dimensions:integer[1,4294967295] normalize:boolean"],
        r#"{"input": "Hello"}"#,
    ),
    post(
        "/v1/rerank",
        "The relevance of documents for a query (Jina, Cohere)",
        &[RERANK],
        r#"{"query": "Hello", "documents": ["a", "b"]}"#,
    ),
    post(
        "/v2/rerank",
        "The relevance of documents for a query (Cohere)",
        &[RERANK],
        r#"{"query": "Hello", "documents": ["a", "b"]}"#,
    ),
    post(
        "/v1/score",
        "Scores of pairs of texts (vLLM)",
        &["model:string !text_1:@strings !text_2:@strings use_activation:boolean"],
        r#"{"text_1": "Hello", "text_2": ["a", "b"]}"#,
    ),
    post(
        "/pooling",
        "Embeddings of texts, as the model pools them (vLLM)",
        &["model:string !input:@prompts task=embed encoding_format=float \
           dimensions:integer[1,4294967295] use_activation:boolean"],
        r#"{"input": "Hello"}"#,
    ),
    post(
        "/generate",
        "Texts after prompts (SGLang)",
        &["model:string text:string|array input_ids:array sampling_params:object stream:boolean \
           return_logprob:boolean return_text_in_logprobs:boolean"],
        r#"{"text": "Once upon a time", "sampling_params": {"max_new_tokens": 4}}"#,
    ),
    get("/version", "The version (vLLM)"),
    get("/load", "The number of requests that are being answered (vLLM)"),
    get("/is_sleeping", "Whether /sleep has unloaded all models (vLLM)"),
    act("/sleep", "Unloads all models (vLLM)"),
    act("/wake_up", "Loads the models that /sleep has unloaded (vLLM)"),
    act("/reset_prefix_cache", "Forgets cached prefixes (vLLM)"),
    get("/ping", "Whether all models are loaded (SageMaker)"),
    act("/ping", "Whether all models are loaded (SageMaker)"),
    get("/v1/models", "The models (OpenAI)"),
    get("/v1/models/{model}", "A model (OpenAI)"),
    post("/models/load", "Loads a model", &["model:string"], "{}"),
    post("/models/unload", "Unloads a model", &["model:string"], "{}"),
    post(
        "/v1/messages",
        "The next message of a conversation (Anthropic)",
        &[
            "model:string !max_tokens:integer[0,4294967295] !messages:array system:string|array \
             stop_sequences:string|array tools:array tool_choice:object thinking:@thinking \
             output_config:object metadata:object stream:boolean",
            SAMPLING,
        ],
        MESSAGES,
    ),
    post(
        "/v1/messages/count_tokens",
        "The tokens of a prompt (Anthropic)",
        &["model:string !messages:array system:string|array tools:array tool_choice:object \
           thinking:@thinking"],
        r#"{"messages": [{"role": "user", "content": "Hello"}]}"#,
    ),
    post(
        "/api/chat",
        "The next message of a conversation (Ollama)",
        &[OLLAMA, "messages:array tools:@tools"],
        r#"{"model": "built-in", "messages": [{"role": "user", "content": "Hello"}],
            "options": {"num_predict": 4}}"#,
    ),
    post(
        "/api/generate",
        "A text after a prompt (Ollama)",
        &[
            OLLAMA,
            "prompt:string images:@images suffix:string system:string template:string \
          raw:boolean context:@context",
        ],
        r#"{"model": "built-in", "prompt": "Hello", "options": {"num_predict": 4}}"#,
    ),
    post(
        "/api/embed",
        "Embeddings of texts (Ollama)",
        &["!model:string !input:@strings truncate:boolean dimensions:integer[1,4294967295]"],
        r#"{"model": "built-in", "input": "Hello"}"#,
    ),
    post(
        "/api/show",
        "A model (Ollama)",
        &["!model:string verbose:boolean"],
        r#"{"model": "built-in"}"#,
    ),
    post(
        "/api/pull",
        "Downloads a model (Ollama)",
        &["!model:string insecure:boolean stream:boolean"],
        r#"{"model": "qwen3:0.6b"}"#,
    ),
    Route {
        method: "delete",
        ..post(
            "/api/delete",
            "Deletes a model that /api/pull has downloaded (Ollama)",
            &["!model:string"],
            r#"{"model": "qwen3:0.6b"}"#,
        )
    },
    get("/api/tags", "The models (Ollama)"),
    get("/api/ps", "The loaded models (Ollama)"),
    get("/api/version", "The version (Ollama)"),
    get("/health", "Whether all models are loaded"),
    get("/metrics", "Counters for Prometheus"),
    get("/props", "Properties of the first model (llama.cpp)"),
    get("/slots", "The load of the models (llama.cpp)"),
    get("/tokenizer_info", "Special tokens of the first model (vLLM)"),
    post(
        "/tokenize",
        "Tokens of a text (llama.cpp, vLLM)",
        &["model:string content:string prompt:string add_special:boolean \
           add_special_tokens:boolean parse_special:boolean with_pieces:boolean messages:array"],
        r#"{"content": "Hello"}"#,
    ),
    post(
        "/completion",
        "A text after a prompt (llama.cpp)",
        &["model:string !prompt:@prompt", LLAMA_CPP, SAMPLING, STOP, OUTPUT],
        r#"{"prompt": "Once upon a time", "n_predict": 4}"#,
    ),
    post(
        "/embedding",
        "Embeddings of texts (llama.cpp)",
        &["model:string !content:@prompts"],
        r#"{"content": "Hello"}"#,
    ),
    form("/v1/audio/transcriptions", "The text of speech (OpenAI)", &[AUDIO, OPENAI_AUDIO]),
    form("/v1/audio/translations", "The English text of speech (OpenAI)", &[AUDIO, OPENAI_AUDIO]),
    form(
        "/inference",
        "The text of speech (whisper.cpp)",
        &[
            AUDIO,
            "translate:boolean detect_language:boolean temperature_inc:number[0,1] \
             best_of:integer[1,5] no_speech_thold:number[0,1] logprob_thold:number[-100,0] \
             carry_initial_prompt:boolean no_timestamps:boolean token_timestamps:boolean \
             offset_t:number[0,1000000000000] duration:number[0,1000000000000] vad:boolean \
             vad_threshold:number[0,1] vad_min_speech_duration_ms:number[0,3600000] \
             vad_min_silence_duration_ms:number[0,3600000] vad_speech_pad_ms:number[0,3600000]",
        ],
    ),
    get("/lora-adapters", "The LoRA adapters (llama.cpp)"),
    post("/detokenize", "The text of tokens", &["model:string !tokens:@ids"], r#"{"tokens": [5]}"#),
    post("/apply-template", "The prompt of a chat", &[CHAT], MESSAGES),
    post("/v1/chat/completions/render", "The tokens of a chat's prompt (vLLM)", &[CHAT], MESSAGES),
    post(
        "/v1/completions/render",
        "The tokens of prompts (vLLM)",
        &["model:string !prompt:@prompts"],
        r#"{"prompt": "Once upon a time"}"#,
    ),
    get("/server_info", "What the server runs at the same time (SGLang)"),
    get("/model_info", "What the first model is (SGLang)"),
    post("/v1/chat/completions/input_tokens", "The tokens of a chat", &[CHAT], MESSAGES),
    post(
        "/infill",
        "Text between a prefix and a suffix (llama.cpp)",
        &[
            "model:string !input_prefix:string input_suffix:string input_extra:array \
             prompt:string",
            LLAMA_CPP,
            SAMPLING,
            STOP,
            OUTPUT,
        ],
        r#"{"input_prefix": "a", "input_suffix": "b", "n_predict": 4}"#,
    ),
];
