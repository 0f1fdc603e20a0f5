"""Chat templates of the kinds that open models ship, each with what is odd about its family."""

HERMES = """\
{%- if tools %}<|im_start|>system
You may call functions:
<tools>
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}
</tools>
For each call write its name and arguments within tags:
<tool_call>
{"name": <name>, "arguments": <arguments>}
</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}
{%- if message.role == "tool" %}
{%- if loop.first or messages[loop.index0 - 1].role != "tool" %}<|im_start|>user{% endif %}
<tool_response>
{{ message.content }}
</tool_response>
{%- if loop.last or messages[loop.index0 + 1].role != "tool" %}<|im_end|>
{% endif %}
{%- elif message.role == "assistant" %}<|im_start|>assistant
{{ message.content }}
{%- for call in message.tool_calls or [] %}
{%- if message.content or not loop.first %}
{{ "\\n" }}
{%- endif %}<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|im_end|>
{% else %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""Like Qwen 2.5 and Hermes 3: the answers to parallel calls are one message."""

THINKING = """\
{%- set ns = namespace(last=-1) %}
{%- for message in messages %}
{%- if message.role == "user" %}{% set ns.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.role == "assistant" and loop.index0 > ns.last -%}
<think>
{{ message.reasoning_content or "" }}
</think>

{% endif -%}
{% generation %}{{ message.content }}{% endgeneration %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif %}"""
"""Like Qwen 3 and DeepSeek R1: opens the thoughts, and drops those of earlier turns."""

LLAMA = """\
{%- for message in messages %}
{%- if message.tool_calls %}
{%- if message.tool_calls | length != 1 %}{{ raise_exception("One call at a time!") }}{% endif -%}
<|im_start|>assistant

{"name": "{{ message.tool_calls[0].function.name }}", \
"parameters": {{ message.tool_calls[0].function.arguments | tojson }}}<|eot_id|>
{%- elif message.role == "tool" %}<|im_start|>ipython

{{ message.content | tojson }}<|eot_id|>
{%- else %}<|im_start|>{{ message.role }}

{{ message.content | trim }}<|eot_id|>
{%- endif %}
{%- endfor %}
{%- if tools %}<|python_tag|>{{ tools | tojson(indent=4) }}{% endif %}
{%- if add_generation_prompt %}<|im_start|>assistant

{% endif %}"""
"""Like Llama 3.1: a message with calls has no text, and only one call."""
