"""Writes a GGUF file with a small Llama model of random weights and a tokenizer of single bytes."""

import sys

import gguf
import numpy

LAYERS, WIDTH, HEADS, FEED_FORWARD, CONTEXT = 2, 64, 4, 128, 4096
TEMPLATE = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant:"

tokens = [b"<unk>", b"<s>", b"</s>"] + [f"<0x{byte:02X}>".encode() for byte in range(256)]
# Words of one character, so that text is printable.
tokens += [bytes([byte]) for byte in range(0x20, 0x7F)]
Type = gguf.TokenType
types = [Type.UNKNOWN, Type.CONTROL, Type.CONTROL] + [Type.BYTE] * 256 + [Type.NORMAL] * (len(tokens) - 259)

writer = gguf.GGUFWriter(sys.argv[1], "llama")
writer.add_name("random")
writer.add_context_length(CONTEXT)
writer.add_embedding_length(WIDTH)
writer.add_block_count(LAYERS)
writer.add_feed_forward_length(FEED_FORWARD)
writer.add_head_count(HEADS)
writer.add_head_count_kv(HEADS)
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_dimension_count(WIDTH // HEADS)
writer.add_vocab_size(len(tokens))
writer.add_tokenizer_model("llama")
writer.add_token_list(tokens)
writer.add_token_scores([0.0] * 259 + [-1.0] * (len(tokens) - 259))
writer.add_token_types(types)
writer.add_bos_token_id(1)
writer.add_eos_token_id(2)
writer.add_unk_token_id(0)
writer.add_chat_template(TEMPLATE)

random = numpy.random.default_rng(1)


def add(name, *shape):
    writer.add_tensor(name, random.normal(0, 0.1, shape).astype(numpy.float32))


def add_norm(name):
    writer.add_tensor(name, numpy.ones(WIDTH, numpy.float32))


add("token_embd.weight", len(tokens), WIDTH)
for layer in range(LAYERS):
    prefix = f"blk.{layer}."
    add_norm(prefix + "attn_norm.weight")
    for name in ("q", "k", "v", "output"):
        add(f"{prefix}attn_{name}.weight", WIDTH, WIDTH)
    add_norm(prefix + "ffn_norm.weight")
    add(prefix + "ffn_gate.weight", FEED_FORWARD, WIDTH)
    add(prefix + "ffn_up.weight", FEED_FORWARD, WIDTH)
    add(prefix + "ffn_down.weight", WIDTH, FEED_FORWARD)
add_norm("output_norm.weight")
add("output.weight", len(tokens), WIDTH)

writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
