"""Chat templates over a tokenizer of the library that models use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strop.errors import ConfigError, RendererError
from strop.models.renderer import TemplateRenderer
from strop.models.renderer.jinja import compile_template
from strop.types import Message, ToolCall
from tests.sdk.models.renderer.conversations import (
    LINES,
    MARKS,
    MOVE,
    TEXTS,
    observations,
    prompts,
    tiny_tokenizer,
)
from tests.sdk.models.renderer.templates import HERMES, LLAMA, THINKING

TOKENIZER = tiny_tokenizer()
TEMPLATES = {"hermes": HERMES, "thinking": THINKING, "llama": LLAMA}
RENDERERS = {
    name: TemplateRenderer(TOKENIZER, template, variables={"bos_token": ""})
    for name, template in TEMPLATES.items()
}
CALL = ToolCall("call_0", "move", '{"direction": "up"}')

every_template = pytest.mark.parametrize("name", TEMPLATES)


def text_of(ids: list[int]) -> str:
    text: str = TOKENIZER.decode(ids, skip_special_tokens=False)
    return text


@every_template
@given(
    prompt=prompts(), sampled=st.lists(st.integers(0, 264), max_size=40), observation=observations()
)
def test_a_conversation_is_extended_and_what_was_sampled_stays_as_it_is(
    name: str, prompt: list[Message], sampled: list[int], observation: list[Message]
) -> None:
    renderer = RENDERERS[name]
    known = renderer.render(prompt, ()) + sampled

    longer = renderer.extend(known, observation)

    assert longer[: len(known)] == known
    assert text_of(longer).endswith(text_of(renderer.render([Message("user", "")], ()))[-10:])


@given(prompt=prompts(), said=LINES, observation=observations())
def test_an_extended_conversation_is_the_one_that_would_be_rendered(
    prompt: list[Message], said: str, observation: list[Message]
) -> None:
    renderer = RENDERERS["hermes"]
    answer = Message("assistant", said, tool_calls=(CALL,))
    begun = renderer.render(prompt, ())
    whole = renderer.render([*prompt, answer, *observation], ())
    end = next(at for at in range(len(begun), len(whole)) if whole[at] in renderer.stop_ids)

    assert renderer.extend(whole[: end + 1], observation) == whole
    assert renderer.extend(whole[:end], observation) == whole


@given(prompt=prompts(), said=LINES.filter(lambda text: not text.endswith("\n")))
def test_what_was_rendered_is_parsed_back(prompt: list[Message], said: str) -> None:
    renderer = RENDERERS["hermes"]
    answer = Message("assistant", said, tool_calls=(CALL,))

    begun = renderer.render(prompt, ())
    sampled = renderer.render([*prompt, answer], ())[len(begun) :]

    assert renderer.parse(sampled) == answer


def test_the_answers_to_parallel_calls_are_written_together() -> None:
    renderer = RENDERERS["hermes"]
    calls = (CALL, ToolCall("call_1", "move", "{}"))
    asked, answer = Message("user", "Go."), Message("assistant", "", tool_calls=calls)
    told = [Message("tool", "ok", tool_call_id=f"call_{index}", name="move") for index in (0, 1)]
    whole = renderer.render([asked, answer, *told], ())
    begun = renderer.render([asked], ())
    end = whole.index(renderer.stop_ids[0], len(begun))

    assert renderer.extend(whole[: end + 1], told) == whole


def test_thoughts_that_a_template_would_drop_stay_in_an_extended_conversation() -> None:
    renderer = RENDERERS["thinking"]
    begun = renderer.render([Message("user", "Hi")], ())
    sampled = TOKENIZER.encode("so be it\n</think>\n\nHo<|im_end|>").ids

    longer = renderer.extend(begun + sampled, [Message("user", "Again")])

    assert text_of(longer).count("so be it") == 1
    said = Message("assistant", "Ho", reasoning="so be it")
    dropped = renderer.render([Message("user", "Hi"), said, Message("user", "Again")], ())
    assert "so be it" not in text_of(dropped)


def test_thoughts_that_the_prompt_opened_are_thoughts() -> None:
    renderer = RENDERERS["thinking"]
    whole = TOKENIZER.encode("hm\n</think>\n\nHo<|im_end|>").ids
    cut = TOKENIZER.encode("hm, so").ids

    assert renderer.parse(whole) == Message("assistant", "Ho", reasoning="hm")
    assert renderer.parse(cut) == Message("assistant", "", reasoning="hm, so")


def test_what_a_template_refuses_is_said_in_its_words() -> None:
    twice = [Message("tool", "ok", tool_call_id=f"call_{index}", name="f") for index in (0, 1)]

    with pytest.raises(RendererError, match="One call at a time!"):
        RENDERERS["llama"].extend([1, 2], twice)


def test_a_call_of_llama_is_read_with_the_tag_and_without() -> None:
    renderer = RENDERERS["llama"]
    written = '{"name": "move", "parameters": {"direction": "up"}}'

    for text in (written, f"<|python_tag|>{written}"):
        assert renderer.parse(TOKENIZER.encode(f"{text}<|eot_id|>").ids).tool_calls == (CALL,)


def test_tools_are_written_as_the_template_wants_them() -> None:
    for name in ("hermes", "llama"):
        text = text_of(RENDERERS[name].render([Message("user", "Go.")], [MOVE]))
        assert "Move some squares." in text
        assert "&#34;" not in text


def test_malformed_arguments_pass_through_a_template() -> None:
    bad = Message("assistant", "", tool_calls=(ToolCall("call_0", "move", '{"count": '),))

    assert "count" in text_of(RENDERERS["hermes"].render([Message("user", "Go."), bad], ()))


def test_a_template_cannot_reach_into_python() -> None:
    render = compile_template("{{ messages.__class__.__mro__ }}{{ messages.append(1) }}")

    with pytest.raises(RendererError, match="refuses"):
        render(messages=[])


def test_templates_have_the_functions_that_their_authors_use() -> None:
    text = """
    {%- for number in [1, 2, 3] %}{% if number == 2 %}{% break %}{% endif %}{{ number }}
    {%- endfor %}{{ strftime_now("%Y") | length }}{{ {"ü": 1} | tojson }}"""

    assert compile_template(text)() == '14{"ü": 1}'


def test_a_template_that_ends_no_message_is_refused() -> None:
    with pytest.raises(RendererError, match="no control token"):
        TemplateRenderer(TOKENIZER, "{% for m in messages %}{{ m.content }}\n{% endfor %}")


def write_folder(folder: Path, **config: Any) -> Path:
    folder.mkdir()
    TOKENIZER.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def test_a_models_folder_is_read_in_each_of_its_forms(tmp_path: Path) -> None:
    end = {"eos_token": {"content": "<|im_end|>"}, "bos_token": "<|im_start|>"}
    texts: dict[str, Any] = {
        "one": {"chat_template": HERMES},
        "named": {"chat_template": [{"name": "default", "template": HERMES}]},
        "file": {},
    }
    for name, config in texts.items():
        folder = write_folder(tmp_path / name, **config, **end)
        if name == "file":
            (folder / "chat_template.jinja").write_text(HERMES)
        (folder / "generation_config.json").write_text('{"eos_token_id": [259]}')

        renderer = TemplateRenderer.read(folder)

        prompt = [Message("user", "hi")]
        assert renderer.render(prompt, ()) == RENDERERS["hermes"].render(prompt, ())
        ids = {TOKENIZER.token_to_id("<|im_end|>"), 259}
        assert set(renderer.stop_ids) == ids


def test_a_folder_that_lacks_something_is_refused_with_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(ConfigError, match=r"no tokenizer\.json"):
        TemplateRenderer.read(tmp_path / "empty")
    with pytest.raises(ConfigError, match=r"no chat template.*ChatmlRenderer"):
        TemplateRenderer.read(write_folder(tmp_path / "base"))


@pytest.mark.parametrize(
    "content",
    [b"", b"GGUF", b"GGUF\x09" + b"\0" * 19, b"GGUF\3" + b"\0" * 11 + b"\1" + b"\xff" * 40],
)
def test_a_file_that_is_no_gguf_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match="no GGUF file"):
        TemplateRenderer.read(path)


def test_a_path_where_nothing_is_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        TemplateRenderer.read(tmp_path / "absent")


def test_the_missing_extra_is_named_and_the_plain_renderers_need_none(tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules["tokenizers"] = sys.modules["jinja2"] = None
from pathlib import Path
from strop.models.renderer import ByteTokenizer, ChatmlRenderer, TemplateRenderer
from strop.models.renderer.jinja import compile_template
from strop.types import Message
ChatmlRenderer(ByteTokenizer()).render([Message("user", "hi")], ())
for attempt, argument in ((TemplateRenderer.read, Path({str(tmp_path)!r})), (compile_template, "")):
    try:
        attempt(argument)
    except Exception as error:
        print(type(error).__name__, error)
"""
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout

    assert said.count("ConfigError") == said.count("pip install 'strop[hf]'") == 2


@given(text=TEXTS)
def test_the_tiny_tokenizer_is_exact(text: str) -> None:
    assert text_of(TOKENIZER.encode(text).ids) == text
    assert len(MARKS) == 4
