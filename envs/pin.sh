#!/usr/bin/env bash
# Pin envs/*.in into envs/*.txt: envs/pin.sh
# Compare the newest compilers with the pinned ones: envs/pin.sh newest OPERATOR...
#
# Resolved against PyPI's own torch, the CUDA build, so that the pins fit it; what only that build pulls in is
# left out again, so that a machine with a CPU build does not download it.
set -euo pipefail
cd "$(dirname "$0")"
PATH="$PWD/../.venv/bin:$PATH"
plain=(--quiet --python-version 3.11 --no-annotate --no-header)

hashed() { # of compilers only: all else of these environments comes from the main one
    grep -oE '^[a-z0-9-]+==[^ ]+' | uv pip compile "${plain[@]}" --no-deps --generate-hashes - >"$1.new"
    mv "$1.new" "$1"
}

if [ "${1:-}" = newest ]; then
    cute='nvidia-cutlass-dsl[a-z0-9-]*' cutile='cuda-tile|nvidia-cuda-(tileiras|nvcc|crt)|nvidia-nvvm'
    disassembler=nvidia-cuda-nvdisasm
    operators=$(IFS=,; echo "${*:2}")
    cd .. && mkdir -p results
    newest=$(grep -oE "^($cute|$cutile|$disassembler)==" envs/requirements.in | tr -d = | uv pip compile "${plain[@]}" -)
    changed=
    for compilers in "$cute" "$cutile"; do # a DSL whose compilers are the pinned ones is not compared
        pins=$(grep -E "^($compilers)==" <<<"$newest")
        if grep -qvxFf envs/requirements.txt <<<"$pins"; then changed+=$pins$'\n'; fi
    done
    [ -n "$changed" ] || { echo "The pinned compilers are the newest ones."; exit; }
    { echo "$changed"; grep "^$disassembler==" <<<"$newest"; } | hashed results/newest.txt
    while IFS== read -r name _ version; do
        pinned=$(sed -n "s/^$name==//p" envs/requirements.txt)
        [ "$pinned" = "$version" ] || echo "$name ${pinned:-not pinned} → $version"
    done < <(grep -oE '^[a-z0-9-]+==[^ ]+' results/newest.txt)
    exec snakemake --cores all gate --config 'toolchains=[main, results/newest.txt]' "operators=[${operators:-mla_decode}]"
fi

only_cuda_torch='^(cuda-toolkit|triton|setuptools|nvidia-(cublas|cuda-cupti|cuda-nvrtc|cudnn-cu13|cufft|cufile|curand|cusolver|cusparse|cusparselt-cu13|nccl-cu13|nvshmem-cu13|nvtx))=='
for name in requirements requirements-dev requirements-docs; do
    uv pip compile "${plain[@]}" "$name.in" | grep -vE "$only_cuda_torch" >"$name.txt.new"
    mv "$name.txt.new" "$name.txt"
done

{
    echo "# Made by pin.sh from requirements.txt, for snakemake --sdm conda. The README's commands do not use it."
    printf 'channels:\n  - conda-forge\ndependencies:\n  - python=3.11\n  - pip\n  - pip:\n'
    sed 's/^/      - /' requirements.txt
} >environment.yaml
# All that a machine without any package needs, torch's CUDA build and what builds this project included.
uv pip compile "${plain[@]}" --generate-hashes \
    --constraint requirements.txt --output-file requirements-hashed.txt requirements.in requirements-build.in

for file in toolchains/*.txt; do
    hashed "$file" <"$file"
done

echo "-e ." >>requirements.txt # the project's own packages: pip takes the path from where it is called
