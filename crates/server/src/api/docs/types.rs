//! Schemas of nested values, which fields name as `@NAME`.

use serde_json::{Map, Value};

/// JSON Schemas by name.
const TYPES: &str = r##"{
  "messages": {"type": "array", "minItems": 1, "items": {
    "type": "object", "required": ["role"], "properties": {
      "role": {"type": "string", "minLength": 1},
      "content": {"$ref": "#/components/schemas/content"},
      "reasoning_content": {"type": ["string", "null"]},
      "tool_calls": {"type": ["array", "null"], "items": {"type": "object"}},
      "tool_call_id": {"type": ["string", "null"]},
      "name": {"type": ["string", "null"]}
    }}},
  "content": {"anyOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"anyOf": [
    {"type": "string"},
    {"type": "object", "required": ["text"], "properties": {
      "type": {"enum": ["text", "input_text", "output_text", null]}, "text": {"type": "string"}
    }},
    {"description": "A picture as a data: URL or as base64, for a model that sees",
    "type": "object", "required": ["type", "image_url"], "properties": {
      "type": {"enum": ["image_url", "input_image"]},
      "image_url": {"anyOf": [{"type": "string", "minLength": 1}, {
        "type": "object", "required": ["url"], "properties": {
          "url": {"type": "string", "minLength": 1},
          "detail": {"enum": ["auto", "low", "high", "original", null]}
        }}]},
      "detail": {"enum": ["auto", "low", "high", "original", null]}
    }},
    {"description": "Another part: left out, and refused in the newest message",
    "type": "object", "required": ["type"], "properties": {
      "type": {"type": "string",
        "not": {"enum": ["text", "input_text", "output_text", "image_url", "input_image", "image"]}}
    }}]}}]},
  "tools": {"type": ["array", "null"], "items": {"anyOf": [{
    "type": "object", "required": ["function"], "properties": {
      "type": {"enum": ["function", null]},
      "function": {"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "minLength": 1},
        "description": {"type": ["string", "null"]},
        "parameters": {"type": ["object", "null"]}
      }}
    }}, {
    "description": "A tool of a provider, which is skipped",
    "type": "object", "required": ["type"], "properties": {
      "type": {"type": "string", "not": {"const": "function"}}
    }}]}},
  "format": {"type": ["object", "null"], "required": ["type"], "properties": {
    "type": {"enum": ["text", "json_object", "json_schema"]},
    "json_schema": {"type": ["object", "null"], "properties": {
      "name": {"type": ["string", "null"]}, "schema": {"type": ["object", "boolean", "null"]}, "strict": {"type": ["boolean", "null"]}
    }}
  }},
  "prediction": {"type": ["object", "null"], "required": ["content"], "properties": {
    "type": {"enum": ["content", null]}, "content": {"$ref": "#/components/schemas/content"}
  }},
  "stream_options": {"type": ["object", "null"], "properties": {
    "include_usage": {"type": ["boolean", "null"]}
  }},
  "ids": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 4294967295}},
  "context": {"type": ["array", "null"],
    "items": {"type": "integer", "minimum": 0, "maximum": 4294967295}},
  "strings": {"anyOf": [
    {"type": ["string", "null"]}, {"type": "array", "items": {"type": "string"}}
  ]},
  "prompts": {"anyOf": [
    {"type": "string"},
    {"type": "array", "minItems": 1, "items": {"type": "string"}},
    {"type": "array", "minItems": 1, "items": {"type": "integer", "minimum": 0}},
    {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/ids"}}
  ]},
  "prompt": {"anyOf": [{"$ref": "#/components/schemas/prompts"}, {
    "type": "object", "required": ["prompt_string"], "properties": {
      "prompt_string": {"type": "string"},
      "multimodal_data": {"type": ["array", "null"], "items": {"type": "string"}}
    }}]},
  "bias": {"type": ["object", "null"], "propertyNames": {"pattern": "^[0-9]{1,9}$"},
    "additionalProperties": {"type": "number", "minimum": -10000, "maximum": 10000}},
  "loras": {"type": ["array", "null"], "items": {
    "type": "object", "required": ["name"], "properties": {
      "name": {"type": "string"}, "scale": {"type": ["number", "null"]}
    }}},
  "file": {"type": "string", "contentMediaType": "application/octet-stream"},
  "granularities": {"type": ["array", "null"], "items": {"enum": ["word", "segment"]}},
  "nothing": {"type": ["array", "null"], "maxItems": 0},
  "images": {"type": ["array", "null"], "items": {"type": "string", "minLength": 1}},
  "chunking": {"anyOf": [{"enum": ["auto", null]}, {"type": "object", "properties": {
    "type": {"enum": ["server_vad", null]},
    "threshold": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
    "prefix_padding_ms": {"type": ["number", "null"], "minimum": 0, "maximum": 3600000},
    "silence_duration_ms": {"type": ["number", "null"], "minimum": 0, "maximum": 3600000}
  }}]},
  "thinking": {"type": ["object", "null"], "required": ["type"], "properties": {
    "type": {"enum": ["enabled", "adaptive", "disabled"]}
  }},
  "think": {"enum": [true, false, "low", "medium", "high", null]},
  "openai_error": {"type": "object", "required": ["error"], "properties": {
    "error": {"type": "object", "required": ["message", "type", "param", "code"], "properties": {
      "message": {"type": "string"}, "type": {"type": "string"},
      "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]}
    }}}},
  "anthropic_error": {"type": "object", "required": ["type", "error"], "properties": {
    "type": {"enum": ["error"]},
    "error": {"type": "object", "required": ["type", "message"], "properties": {
      "type": {"type": "string"}, "message": {"type": "string"}
    }}}},
  "ollama_error": {"type": "object", "required": ["error"], "properties": {
    "error": {"type": "string"}
  }}
}"##;

/// JSON Schemas by name.
pub(super) fn types() -> Map<String, Value> {
    serde_json::from_str(TYPES).unwrap_or_default()
}

/// A reference to a schema.
pub(super) fn reference(name: &str) -> Value {
    serde_json::json!({"$ref": format!("#/components/schemas/{name}")})
}
