//! Fields of other servers and of clients that requests may have, although nothing here reads them.
//!
//! An entry is the name of a field that may have any value: it changes no text, or only what the
//! server does not have. `NAME=VALUE|VALUE` may have these values of JSON alone, with which it
//! changes nothing; `NAME=` may have none. All other fields are unknown. `docs/serve.md` says so to
//! users.

/// Fields of any request: identifiers, tracing, routing and accounts of OpenAI, vLLM, SGLang,
/// LiteLLM, OpenRouter and Open WebUI.
pub(crate) const ANY: &[&str] = &[
    "api_key",
    "background_tasks",
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
    "chat_id",
    "client_metadata",
    "custom_params",
    "data_parallel_rank",
    "features",
    "files",
    "filter_ids",
    "id",
    "kv_transfer_params",
    "litellm_call_id",
    "litellm_metadata",
    "litellm_session_id",
    "litellm_trace_id",
    "log_metrics",
    "metadata",
    "model_item",
    "models",
    "parent_id",
    "parent_message",
    "params",
    "plugins",
    "priority",
    "prompt_cache_key",
    "prompt_cache_retention",
    "provider",
    "request_id",
    "rid",
    "route",
    "safety_identifier",
    "service_tier",
    "session_id",
    "session_params",
    "store",
    "tags",
    "tool_ids",
    "tool_servers",
    "trace",
    "transforms",
    "usage",
    "user",
    "variables",
    "verbosity",
    "vllm_xargs",
];

/// Fields of requests for texts of vLLM, SGLang, llama.cpp and providers of OpenAI's API.
pub(crate) const TEXT: &[&str] = &[
    "add_special_tokens=true|false",
    "allowed_token_ids=[]",
    "backend_sampling",
    "bad_words=[]",
    "best_of=1",
    "chat_format",
    "chat_template=",
    "chat_template_content_format",
    "custom_logit_processor=",
    "early_stopping=false",
    "ebnf=",
    "echo=false",
    "enable_search=false",
    "grammar_lazy=false",
    "grammar_triggers=[]",
    "guided_decoding_backend",
    "guided_whitespace_pattern=",
    "id_slot",
    "image_data=[]",
    "include_reasoning=true",
    "include_stop_str_in_output=false",
    "incremental_output",
    "input_ids=",
    "length_penalty=1",
    "logits_processors=[]",
    "lora_path=",
    "lora_request=",
    "media_io_kwargs",
    "min_new_tokens=0",
    "mm_processor_kwargs",
    "multimodal_data=[]",
    "n_cache_reuse",
    "n_cmpl=1",
    "n_discard",
    "n_indent",
    "n_keep",
    "n_probs=0",
    "no_stop_trim=false",
    "num_beams=1",
    "parse_tool_calls=true",
    "penalize_nl",
    "penalty_prompt=",
    "post_sampling_probs=false",
    "preserved_tokens",
    "prompt_logprobs=",
    "prompt_mode=\"reasoning\"",
    "random_seed=",
    "reasoning_budget",
    "reasoning_format=\"auto\"|\"deepseek\"|\"deepseek-legacy\"",
    "reasoning_in_content=false",
    "regex=",
    "repetition_detection",
    "response_fields",
    "result_format=\"message\"",
    "return_cached_tokens_details",
    "return_hidden_states=false",
    "return_progress=false",
    "return_token_ids=false",
    "return_tokens=false",
    "return_tokens_as_token_ids=false",
    "safe_prompt=false",
    "separate_reasoning=true",
    "skip_special_tokens=true",
    "slot_id",
    "spaces_between_special_tokens",
    "speculative",
    "speculative.n_max",
    "speculative.n_min",
    "speculative.p_min",
    "speculative.type",
    "sse_ping_interval",
    "stop_regex=",
    "structural_tag=",
    "stream_reasoning=true",
    "t_max_predict_ms",
    "tfs_z=1",
    "thinking_budget",
    "thinking_budget_tokens",
    "thinking_forced_open=false",
    "thinking_token_budget",
    "timings_per_token",
    "truncate_prompt_tokens=-1",
    "use_beam_search=false",
    "verbose",
];

/// Fields of SGLang's own path.
pub(crate) const SGLANG: &[&str] =
    &["logprob_start_len=-1", "token_ids_logprob=", "top_logprobs_num=0"];

/// Fields that say how a response is sent, at paths that send none of a model.
pub(crate) const STREAM: &[&str] = &["stream", "stream_options"];

/// Fields of `stream_options`, of OpenAI and vLLM.
pub(crate) const STREAM_OPTIONS: &[&str] =
    &["continuous_usage_stats=false", "include_obfuscation", "include_usage"];

/// Fields of `response_format` and of the object in it.
pub(crate) const FORMAT: &[&str] = &["description", "name", "strict"];

/// Fields of `structured_outputs` of vLLM.
pub(crate) const STRUCTURED: &[&str] = &[
    "backend",
    "disable_additional_properties=false",
    "disable_any_whitespace",
    "disable_fallback",
    "structural_tag=",
    "whitespace_pattern=",
];

/// Fields of a message, of all APIs, beside those of OpenAI. Templates read them.
pub(crate) const MESSAGE: &[&str] = &[
    "annotations",
    "audio",
    "cache_control",
    "channel",
    "citations",
    "created_at",
    "function_call=",
    "id",
    "images",
    "logprobs",
    "metadata",
    "object",
    "parsed",
    "partial",
    "phase",
    "prefix",
    "provider_specific_fields",
    "reasoning_details",
    "recipient",
    "refusal",
    "status",
    "thinking_blocks",
    "timestamp",
    "tool_name",
    "tool_responses",
    "type",
];

/// Fields of a part of a message.
pub(crate) const PART: &[&str] =
    &["annotations", "cache_control", "citations", "id", "logprobs", "prompt_cache_breakpoint"];

/// Fields of a picture in a message.
pub(crate) const IMAGE: &[&str] =
    &["format", "mediaType", "media_type", "mime_type", "source_type", "uuid"];

/// Fields of a tool and of the function in it. Templates print them.
pub(crate) const TOOL: &[&str] = &[
    "allowed_callers",
    "cache_control",
    "defer_loading",
    "eager_input_streaming",
    "input_examples",
    "metadata",
    "response",
    "return",
    "strict",
];

/// Fields of Ollama's requests.
pub(crate) const OLLAMA: &[&str] = &[
    "debug_render_only=false",
    "_debug_render_only=false",
    "images=[]",
    "max_tokens",
    "shift",
    "truncate",
];

/// Fields of Ollama's `options`: places of models, which the server has, and options of its
/// runners.
pub(crate) const OLLAMA_OPTIONS: &[&str] = &[
    "draft_num_predict",
    "embedding_only",
    "f16_kv",
    "logits_all",
    "low_vram",
    "main_gpu",
    "num_batch",
    "num_ctx",
    "num_gpu",
    "num_gqa",
    "num_keep",
    "num_parallel",
    "num_thread",
    "numa",
    "penalize_newline",
    "rope_frequency_base",
    "rope_frequency_scale",
    "tfs_z=1",
    "think",
    "use_mlock",
    "use_mmap",
    "vocab_only",
];

/// Fields of Anthropic's requests.
pub(crate) const ANTHROPIC: &[&str] = &[
    "anthropic_version",
    "anthropic_beta",
    "betas",
    "cache_control",
    "container",
    "context_management",
    "diagnostics",
    "inference_geo",
    "mcp_servers=[]",
    "speed",
    "stream",
];

/// Fields of Anthropic's blocks.
pub(crate) const BLOCK: &[&str] =
    &["cache_control", "caller", "citations", "context", "id", "is_error", "signature", "title"];

/// Fields of Anthropic's `thinking`.
pub(crate) const THINKING: &[&str] = &["budget_tokens", "clear_thinking", "display"];

/// Fields of OpenAI's Responses.
pub(crate) const RESPONSES: &[&str] = &["context_management", "moderation", "stream_options"];

/// Fields of `reasoning`, of Responses and OpenRouter.
pub(crate) const REASONING: &[&str] =
    &["context", "exclude", "generate_summary", "max_tokens", "mode", "summary"];

/// Fields of an item of Responses.
pub(crate) const ITEM: &[&str] = &[
    "annotations",
    "author",
    "caller",
    "created_by",
    "encrypted_content",
    "id",
    "internal_chat_message_metadata_passthrough",
    "metadata",
    "namespace",
    "recipient",
    "response_id",
    "status",
    "summary",
];

/// Fields of requests for embeddings and scores.
pub(crate) const VECTORS: &[&str] = &[
    "activation",
    "add_special_tokens=true",
    "embd_normalize=2",
    "embedding_type=\"float\"",
    "input_type",
    "late_chunking=false",
    "max_chunks_per_doc",
    "max_tokens_per_doc",
    "return_text=false",
    "softmax",
    "stream=false",
    "task",
    "truncate_prompt_tokens=-1",
    "truncation",
    "use_activation",
];

/// Fields of requests for speech, of OpenAI, faster-whisper's servers and whisper.cpp.
pub(crate) const AUDIO: &[&str] = &[
    "audio_ctx",
    "best_of",
    "debug_mode",
    "diarize=false",
    "encode",
    "file",
    "entropy_thold",
    "initial_prompt=",
    "max_context",
    "max_len=0",
    "no_context",
    "no_language_probabilities",
    "offset_n",
    "processors",
    "response_format",
    "split_on_word",
    "suppress_nst",
    "suppress_non_speech",
    "task",
    "temperature_inc",
    "threads",
    "tinydiarize=false",
    "to_language",
    "vad_max_speech_duration_s",
    "vad_min_silence_duration_ms",
    "vad_min_speech_duration_ms",
    "vad_samples_overlap",
    "vad_speech_pad_ms",
    "vad_threshold",
    "word_thold",
    "without_timestamps=false",
];
