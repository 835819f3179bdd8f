#!/usr/bin/python3
"""Reference results against the terminal program itself: each kind of golden data is one row of KINDS.

    test/golden/run.py [--engine build/infer-engine] [--golden ../shared/golden] [NAME]...

NAME: only data whose name begins so (tokenizers, models/llama, ...). Prints 'ok N - name - figures' or
'not ok N - ...' a datum and ends non-zero when one is not ok. What the engine does not run yet has to end
in one line on stderr and exit status 1; it is printed as 'skip' and never counted as passed.

golden/README.md says how the data were made and what each bound is.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
REAL_MODEL = ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
LICENCE = pathlib.Path("/usr/share/common-licenses/GPL-3")

# Normalized mean squared error of llama.cpp's logits on golden/quants; ours may not be above it.
PEER_ERROR = {
    "Q4_0": 1.0e-3, "Q4_1": 1.2e-3, "Q5_0": 1.1e-3, "Q5_1": 1.2e-3, "Q8_0": 1.2e-3, "Q2_K": 2.1e-3, "Q3_K": 2.0e-3,
    "Q4_K": 2.4e-3, "Q5_K": 2.4e-3, "Q6_K": 2.3e-3, "IQ4_NL": 1.2e-3, "IQ4_XS": 2.1e-3, "IQ3_S": 2.3e-3,
    "TQ1_0": 1.5e-3, "TQ2_0": 1.5e-3, "F16": 1.6e-6, "BF16": 9.9e-5, "MXFP4": 6.2e-3,
}
EXACT_ERROR = 1e-6  # models/: F32 weights
SAME_ARGMAX = 99    # of 100 positions
SURE_MARGIN = 0.5   # smollm2/greedy: below it, the reference itself is in doubt
PEER_LIKELIHOOD = 3.2209
PEER_KL = 0.0040


class NotSupported(Exception):
    """The engine said in one line that it does not run this."""


class Wrong(Exception):
    """A result is not the reference's."""


def engine(*arguments, lines=()):
    """The program's output, line by line."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run([options.engine, *map(str, arguments)], input=text, capture_output=True, text=True)
    if done.returncode == 0:
        return [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode == 1 and done.stderr.count("\n") == 1 and "support" in done.stderr:
        raise NotSupported(done.stderr.strip())
    raise Wrong(f"{arguments[0]}: exit status {done.returncode}: {done.stderr.strip()[:300]}")


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def expect_equal(got, expected, what):
    for number, (ours, reference) in enumerate(zip(got, expected, strict=True), 1):
        if ours != reference:
            raise Wrong(f"{what}, line {number}: {str(ours)[:120]} instead of {str(reference)[:120]}")


def logits_of(model, ids):
    with tempfile.NamedTemporaryFile(suffix=".npy") as out:
        engine("logits", "-m", model, "-o", out.name, lines=[ids])
        return numpy.load(out.name).astype(numpy.float64)


def log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - numpy.log(numpy.exp(shifted).sum(axis=-1, keepdims=True))


def error_between(ours, reference):
    return float(((ours - reference) ** 2).sum() / (reference ** 2).sum())


# ---- one function a kind: returns the figures, raises Wrong or NotSupported ----


def check_tokenizer(path):
    model = REAL_MODEL if path.stem == "smollm2" else path.with_suffix(".gguf")
    cases = lines_of(path)
    texts = [case["text"] for case in cases]
    expect_equal(engine("tokenize", "-m", model, lines=texts), [case["ids"] for case in cases], "ids")
    expect_equal(engine("tokenize", "-m", model, "--special", "--add-bos", lines=texts),
                 [case["ids_special"] for case in cases], "special ids")
    back = engine("detokenize", "-m", model, lines=[case["ids"] for case in cases])
    n_back = sum(text == again for text, again in zip(texts, back, strict=True))
    return f"{len(cases)} texts, {n_back} come back"


def check_template(path):
    cases = lines_of(path)
    answers = engine("render", "--template", path.with_suffix(".jinja"),
                     lines=[{"now": "2026-12-01T09:30:00"} | case for case in cases])
    for number, (answer, case) in enumerate(zip(answers, cases, strict=True), 1):
        is_right = answer == case["text"] if "text" in case else isinstance(answer, dict) and "error" in answer
        if not is_right:
            raise Wrong(f"line {number}: {str(answer)[:200]} instead of {str(case.get('text', 'an error'))[:200]}")
    return f"{len(cases)} renderings"


def check_model(path):
    reference = numpy.load(path).astype(numpy.float64)
    ours = logits_of(path.with_suffix(".gguf"), json.loads((options.golden / "models" / "tokens.json").read_text()))
    error = error_between(ours, reference)
    same = int((ours.argmax(axis=1) == reference.argmax(axis=1)).sum())
    if not error <= EXACT_ERROR or same < SAME_ARGMAX:
        raise Wrong(f"error {error:.1e}, {same} of {len(reference)} largest the same")
    return f"error {error:.1e}, {same} of {len(reference)} largest the same"


def check_quant(path):
    reference = numpy.load(path).astype(numpy.float64)
    ours = logits_of(path.with_suffix(".gguf"), json.loads((options.golden / "models" / "tokens.json").read_text()))
    kind = next(name for name in sorted(PEER_ERROR, key=len, reverse=True) if path.stem.startswith(name))
    error = error_between(ours, reference)
    if not error <= PEER_ERROR[kind]:
        raise Wrong(f"error {error:.1e}, llama.cpp has {PEER_ERROR[kind]:.1e}")
    return f"error {error:.1e}, llama.cpp has {PEER_ERROR[kind]:.1e}"


def check_greedy(path):
    """The reference's own answer fed back, and answers written freely."""
    cases = lines_of(path)
    n_sure = 0
    for case in cases:
        ours = logits_of(REAL_MODEL, case["ids"] + case["greedy"])
        first = len(case["ids"])
        for i, (token, margin) in enumerate(zip(case["greedy"], case["margin"], strict=True)):
            if margin > SURE_MARGIN:
                n_sure += 1
                if ours[first + i - 1].argmax() != token:
                    raise Wrong(f"{case['prompt']!r}, token {i}: {ours[first + i - 1].argmax()} instead of {token}")
    answers = engine("generate", "-m", REAL_MODEL,
                     lines=[{"ids": case["ids"], "max_tokens": len(case["greedy"]), "temperature": 0} for case in cases])
    n_whole = 0
    for answer, case in zip(answers, cases, strict=True):
        doubts = [i for i, margin in enumerate(case["margin"]) if margin < SURE_MARGIN]
        n_bound = doubts[0] if doubts else len(case["greedy"])
        if answer["ids"][:n_bound] != case["greedy"][:n_bound]:
            raise Wrong(f"{case['prompt']!r}: {answer['text'][:120]!r} instead of {case['text'][:120]!r}")
        n_whole += answer["text"] == case["text"]
    return f"{n_sure} sure positions the same, {n_whole} of {len(cases)} answers equal to the end"


def check_likelihood(path):
    """Eight chunks of 512 tokens of the licence, each a sequence of its own."""
    reference = json.loads(path.read_text())
    ids = engine("tokenize", "-m", REAL_MODEL, lines=[LICENCE.read_text(encoding="utf-8")])[0][:4096]
    losses = []
    for start in range(0, 4096, 512):
        chunk = ids[start:start + 512]
        likelihood = log_softmax(logits_of(REAL_MODEL, chunk))
        losses += [-likelihood[i, chunk[i + 1]] for i in range(511)]
        if start == 0:
            exact = log_softmax(numpy.load(path.with_name("gpl3_512_logits_last8.npy")).astype(numpy.float64))
            ours = likelihood[-len(exact):]
            divergence = float((numpy.exp(exact) * (exact - ours)).sum(axis=1).mean())
    mean = float(numpy.mean(losses))
    figures = (f"mean negative log likelihood {mean:.5f} (exact {reference['exact_f32']:.5f}, llama.cpp "
               f"{reference['llama_cpp_q4_1']:.5f}), KL {divergence:.1e}")
    if not mean <= PEER_LIKELIHOOD or not divergence <= PEER_KL:
        raise Wrong(figures)
    return figures


# Folder, which files in it, what compares them.
KINDS = [
    ("tokenizers", "*.jsonl", check_tokenizer),
    ("templates", "*.jsonl", check_template),
    ("models", "*.npy", check_model),
    ("quants", "*[!s].npy", check_quant),
    ("smollm2", "greedy.jsonl", check_greedy),
    ("smollm2", "perplexity.json", check_likelihood),
]


def run():
    n_run = n_failed = n_skipped = 0
    for folder, pattern, check in KINDS:
        for path in sorted((options.golden / folder).glob(pattern)):
            name = f"{folder}/{path.stem}"
            if options.names and not any(name.startswith(wanted) for wanted in options.names):
                continue
            try:
                outcome, figures = "ok", check(path)
            except NotSupported as reason:
                n_skipped += 1
                print(f"skip - {name} - {reason}", flush=True)
                continue
            except Wrong as reason:
                outcome, figures = "not ok", reason
                n_failed += 1
            n_run += 1
            print(f"{outcome} {n_run} - {name} - {figures}", flush=True)
    print(f"{n_run - n_failed} of {n_run} equal to the reference, {n_skipped} not supported yet")
    return n_failed == 0 and n_run > 0


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--engine", default=str(ROOT / "build" / "infer-engine"))
parser.add_argument("--golden", type=pathlib.Path,
                    default=pathlib.Path(os.environ.get("INFER_GOLDEN") or ROOT.parent / "shared" / "golden"))
parser.add_argument("names", nargs="*")
options = parser.parse_args()
if not options.golden.is_dir():
    print(f"skip - no reference results at {options.golden}")
    sys.exit(0)
sys.exit(0 if run() else 1)
