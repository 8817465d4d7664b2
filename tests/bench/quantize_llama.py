"""llama.cpp's quantizer on one file: quantize_llama.py F16.gguf OUTPUT.gguf THREADS

Q4_0 for the linears; the embedding stays in F16, as pare leaves it.
"""

import sys

from cyllama.llama import llama_cpp

Q4_0, F16 = 2, 1  # of llama_ftype, of ggml_type

params = llama_cpp.LlamaModelQuantizeParams()
params.ftype = Q4_0
params.token_embedding_type = F16
params.output_tensor_type = F16
params.nthread = int(sys.argv[3])
llama_cpp.model_quantize(sys.argv[1], sys.argv[2], params)
