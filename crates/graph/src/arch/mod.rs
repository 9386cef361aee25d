//! The architectures: one small table of properties each.
//!
//! To add an architecture that is built from the same ops, add a file with its table and list it in
//! [`architectures`]. If it needs a new op, add that first (see CONTRIBUTING.md).

mod afmoe;
mod apertus;
mod arcee;
mod architecture;
mod axk1;
mod baichuan;
mod bailingmoe;
mod bert;
mod bloom;
mod chatglm;
mod codeshell;
mod cohere2;
mod cohere2moe;
mod command_r;
mod dbrx;
mod deci;
mod deepseek;
mod deepseek2;
mod dots1;
mod ernie4_5;
mod eurobert;
mod exaone;
mod exaone4;
mod exaone_moe;
mod falcon;
mod falcon_h1;
mod flex_olmo;
mod flint;
mod gemma;
mod gemma2;
mod gemma3;
mod gemma4;
mod gemma_embedding;
mod glm4;
mod glm4moe;
mod gpt2;
mod gpt_oss;
mod gptj;
mod gptneox;
mod granite;
mod granite_swa;
mod granitehybrid;
mod granitemoe;
mod hunyuan;
mod hy_v3;
mod hyperclovax;
mod internlm2;
mod jais;
mod jais2;
mod laguna;
mod lfm2;
mod llama;
mod llama4;
mod llama_embed;
mod maincoder;
mod mellum;
mod mimo2;
mod minicpm;
mod minicpm3;
mod minimax_m2;
mod mistral3;
mod mistral4;
mod modern_bert;
mod mpt;
mod muse_glimmer;
mod nanochat;
mod nemotron;
mod nemotron_h;
mod nomic_bert;
mod nomic_bert_moe;
mod olmo;
mod olmo2;
mod olmoe;
mod orion;
mod pangu_embedded;
mod phi2;
mod phi3;
mod plm;
mod qwen;
mod qwen2;
mod qwen2moe;
mod qwen2vl;
mod qwen3;
mod qwen35;
mod qwen35moe;
mod qwen3moe;
mod qwen3next;
mod qwen3vl;
mod seed_oss;
mod smollm3;
mod stablelm;
mod starcoder;
mod starcoder2;
mod vaultgemma;
mod xverse;

pub use architecture::{
    Alibi, Architecture, AttentionScale, Block, Embed, FeedForward, Head, LogitScale, MixerRule,
    Moe, Multipliers, Pattern, PictureMask, Presence, QkNorm, RopeAxes, RopeOff, RopeRule, Temper,
    Window,
};

/// All architectures that are supported.
pub const fn architectures() -> &'static [Architecture] {
    &[
        llama::LLAMA,
        qwen2::QWEN2,
        qwen3::QWEN3,
        gemma::GEMMA,
        gemma2::GEMMA2,
        gemma3::GEMMA3,
        phi3::PHI3,
        phi2::PHI2,
        granite::GRANITE,
        smollm3::SMOLLM3,
        olmo2::OLMO2,
        starcoder2::STARCODER2,
        gpt2::GPT2,
        gptneox::GPTNEOX,
        falcon::FALCON,
        stablelm::STABLELM,
        command_r::COMMAND_R,
        cohere2::COHERE2,
        glm4::GLM4,
        mistral3::MISTRAL3,
        nemotron::NEMOTRON,
        internlm2::INTERNLM2,
        exaone::EXAONE,
        exaone4::EXAONE4,
        minicpm::MINICPM,
        minicpm3::MINICPM3,
        qwen2moe::QWEN2MOE,
        qwen3moe::QWEN3MOE,
        olmoe::OLMOE,
        gpt_oss::GPT_OSS,
        glm4moe::GLM4MOE,
        granitemoe::GRANITEMOE,
        llama4::LLAMA4,
        bert::BERT,
        nomic_bert::NOMIC_BERT,
        nomic_bert_moe::NOMIC_BERT_MOE,
        modern_bert::MODERN_BERT,
        gemma_embedding::GEMMA_EMBEDDING,
        deepseek2::DEEPSEEK2,
        gemma4::GEMMA4,
        qwen35::QWEN35,
        qwen35moe::QWEN35MOE,
        qwen3next::QWEN3NEXT,
        qwen2vl::QWEN2VL,
        qwen3vl::QWEN3VL,
        qwen3vl::QWEN3VLMOE,
        seed_oss::SEED_OSS,
        ernie4_5::ERNIE4_5,
        ernie4_5::ERNIE4_5_MOE,
        hunyuan::HUNYUAN_DENSE,
        hunyuan::HUNYUAN_MOE,
        hy_v3::HY_V3,
        arcee::ARCEE,
        dots1::DOTS1,
        minimax_m2::MINIMAX_M2,
        exaone_moe::EXAONE_MOE,
        mistral4::MISTRAL4,
        bailingmoe::BAILINGMOE,
        bailingmoe::BAILINGMOE2,
        chatglm::CHATGLM,
        granite_swa::GRANITE_SWA,
        mellum::MELLUM,
        cohere2moe::COHERE2MOE,
        bloom::BLOOM,
        mpt::MPT,
        starcoder::STARCODER,
        jais2::JAIS2,
        orion::ORION,
        xverse::XVERSE,
        eurobert::EUROBERT,
        falcon_h1::FALCON_H1,
        granitehybrid::GRANITEHYBRID,
        lfm2::LFM2,
        lfm2::LFM2MOE,
        afmoe::AFMOE,
        muse_glimmer::MUSE_GLIMMER,
        laguna::LAGUNA,
        mimo2::MIMO2,
        olmo::OLMO,
        hyperclovax::HYPERCLOVAX,
        vaultgemma::VAULTGEMMA,
        nanochat::NANOCHAT,
        apertus::APERTUS,
        dbrx::DBRX,
        gptj::GPTJ,
        qwen::QWEN,
        baichuan::BAICHUAN,
        deepseek::DEEPSEEK,
        codeshell::CODESHELL,
        pangu_embedded::PANGU_EMBEDDED,
        maincoder::MAINCODER,
        jais::JAIS,
        axk1::AXK1,
        flint::FLINT,
        flex_olmo::FLEX_OLMO,
        plm::PLM,
        llama_embed::LLAMA_EMBED,
        deci::DECI,
        nemotron_h::NEMOTRON_H,
        nemotron_h::NEMOTRON_H_MOE,
    ]
}
