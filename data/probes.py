"""Conversations that show whether an engine renders the chat template as training did."""

from typing import Any

from data.tokens import load_tokenizer

Conversation = list[dict[str, Any]]

CONVERSATIONS: tuple[Conversation, ...] = (
    [{"role": "user", "content": "Analyse this error log: OOMKilled, exit code 137"}],
    [{"role": "system", "content": "You are terse."}, {"role": "user", "content": "What is a deadlock?"}],
    [{"role": "system", "content": ""}, {"role": "user", "content": "An empty system turn comes before this."}],
    [
        {"role": "user", "content": "The disk is full."},
        {"role": "assistant", "content": "Which one?"},
        {"role": "user", "content": "/var/lib"},
    ],
    [{"role": "user", "content": "다음 에러 로그를 분석해주세요: 연결이 거부되었습니다"}],
    [{"role": "user", "content": "🚂 → 🚃🚃 naïve café"}],
    [{"role": "user", "content": "  spaces before, after, and a newline  \n"}],
    [
        {"role": "system", "content": "한국어로 답하세요. "},
        {"role": "user", "content": "디스크가 가득 찼습니다 🔥"},
        {"role": "assistant", "content": " 어느 디스크인가요?\n"},
        {"role": "user", "content": "\t/var \r\n"},
    ],
)


def render_probes(base_path: str) -> list[tuple[Conversation, list[int]]]:
    """Each conversation with the token ids that the tokenizer in `base_path` makes of it, ready to be answered.

    A conversation that the template refuses (some allow no system turn) is left out: the engine refuses it too.
    """
    from jinja2 import TemplateError

    tokenizer = load_tokenizer(base_path)
    probes = []
    for conversation in CONVERSATIONS:
        try:
            text = tokenizer.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)
        except TemplateError:
            continue
        probes.append((conversation, tokenizer(text, add_special_tokens=False)["input_ids"]))
    return probes
