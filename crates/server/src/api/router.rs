//! The routes.

use std::sync::Arc;

use axum::{
    Router,
    http::{Method, StatusCode},
    middleware,
    routing::{delete, get, post},
};

use super::{anthropic, audio, docs, llama_cpp, ollama, openai, page, routers, sglang, vllm};
use crate::{
    app::App,
    error::ApiError,
    http::{Guard, guard},
};

/// All routes, behind the guard.
pub(crate) fn router(app: Arc<App>) -> Router {
    let layer = middleware::from_fn_with_state(Guard::new(Arc::clone(&app)), guard);
    let page = match app.config.page {
        true => Router::new().route("/", get(page::index)).route("/page/{name}", get(page::part)),
        false => Router::new(),
    };
    page.route("/v1/models", get(openai::models::list))
        .route("/v1/models/{*name}", get(openai::models::one))
        .route("/models/load", post(openai::models::load))
        .route("/models/unload", post(openai::models::unload))
        .route("/v1/completions", post(openai::completions::create))
        .route("/v1/chat/completions", post(openai::chat::create))
        .route("/v1/completions/render", post(routers::render_completions))
        .route("/v1/chat/completions/render", post(routers::render_chat))
        .route("/server_info", get(routers::server_info))
        .route("/model_info", get(routers::model_info))
        .route("/v1/responses", post(openai::responses::create))
        .route("/v1/responses/input_tokens", post(openai::responses::input_tokens))
        .route("/v1/responses/{id}", get(openai::responses::read).delete(openai::responses::remove))
        .route("/models", get(openai::models::list))
        .route("/chat/completions", post(openai::chat::create))
        .route("/responses", post(openai::responses::create))
        .route("/completion", post(llama_cpp::completion::create))
        .route("/completions", post(llama_cpp::completion::create))
        .route("/embedding", post(llama_cpp::embedding::create))
        .route("/embeddings", post(llama_cpp::embedding::create))
        .route("/lora-adapters", get(llama_cpp::embedding::loras))
        .route("/v1/embeddings", post(openai::embeddings::create))
        .route("/v1/rerank", post(openai::rerank::create))
        .route("/v1/audio/transcriptions", post(audio::transcriptions))
        .route("/v1/audio/translations", post(audio::translations))
        .route("/audio/transcriptions", post(audio::transcriptions))
        .route("/audio/translations", post(audio::translations))
        .route("/inference", post(audio::inference))
        .route("/rerank", post(openai::rerank::create))
        .route("/reranking", post(openai::rerank::create))
        .route("/v1/reranking", post(openai::rerank::create))
        .route("/v2/rerank", post(openai::rerank::create))
        .route("/score", post(vllm::score::create))
        .route("/v1/score", post(vllm::score::create))
        .route("/pooling", post(vllm::pooling::create))
        .route("/classify", post(vllm::pooling::classify))
        .route("/generate", post(sglang::generate))
        .route("/version", get(vllm::state::version))
        .route("/load", get(vllm::state::load))
        .route("/reset_prefix_cache", post(vllm::state::reset_prefix_cache))
        .route("/sleep", post(vllm::state::sleep))
        .route("/wake_up", post(vllm::state::wake_up))
        .route("/is_sleeping", get(vllm::state::is_sleeping))
        .route("/openapi.json", get(docs::document))
        .route("/docs", get(docs::page))
        .route("/live", get(llama_cpp::state::live))
        .route("/health", get(llama_cpp::state::health))
        .route("/v1/health", get(llama_cpp::state::health))
        .route("/ping", get(llama_cpp::state::health).post(llama_cpp::state::health))
        .route("/metrics", get(llama_cpp::state::metrics))
        .route("/props", get(llama_cpp::state::props).post(llama_cpp::state::set_props))
        .route("/slots", get(llama_cpp::state::slots))
        .route("/tokenizer_info", get(llama_cpp::state::tokenizer_info))
        .route("/tokenize", post(llama_cpp::text::tokenize))
        .route("/detokenize", post(llama_cpp::text::detokenize))
        .route("/apply-template", post(llama_cpp::text::apply_template))
        .route("/v1/chat/completions/input_tokens", post(llama_cpp::text::input_tokens))
        .route("/infill", post(llama_cpp::infill::create))
        .route("/v1/messages", post(anthropic::messages::create))
        .route("/v1/messages/count_tokens", post(anthropic::messages::count_tokens))
        .route("/messages", post(anthropic::messages::create))
        .route("/messages/count_tokens", post(anthropic::messages::count_tokens))
        .route("/api/chat", post(ollama::generate::chat))
        .route("/api/generate", post(ollama::generate::generate))
        .route("/api/embed", post(ollama::embed::embed))
        .route("/api/embeddings", post(ollama::embed::embeddings))
        .route("/api/tags", get(ollama::models::tags))
        .route("/api/ps", get(ollama::models::running))
        .route("/api/version", get(ollama::models::version))
        .route("/api/show", post(ollama::models::show))
        .route("/api/pull", post(ollama::pull::pull))
        .route("/api/push", post(ollama::models::push))
        .route("/api/create", post(ollama::models::create))
        .route("/api/copy", post(ollama::models::copy))
        .route("/api/delete", delete(ollama::pull::remove))
        .fallback(|| async {
            ApiError::new(StatusCode::NOT_FOUND, "there is no such path; /docs lists all")
        })
        .method_not_allowed_fallback(|method: Method| async move {
            let message = format!("the path has no method {method}; /docs lists all");
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message)
        })
        .with_state(app)
        .layer(layer)
}
