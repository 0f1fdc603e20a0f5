"""A real LangGraph app with a tool of its own plays an episode; it knows nothing of us."""

import os
import subprocess
import venv
from pathlib import Path
from typing import Any

import pytest

from strop import Environment, Message, ScriptedModel, Task, Trajectory, reward
from strop.models.scripted import call
from strop.serve.intercept import AgentEpisode, Program

APP = """
import sys
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

@tool
def add(left: int, right: int) -> int:
    "Add two numbers."
    return left + right

model = ChatOpenAI(model="any", streaming=sys.argv[1] == "streaming").bind_tools([add])
graph = StateGraph(MessagesState)
graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
graph.add_node("tools", ToolNode([add]))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")
end = graph.compile().invoke({"messages": [("user", "What is 20 and 22?")]})
open("answer.txt", "w").write(end["messages"][-1].content)
"""


@pytest.fixture(scope="session")
def graph_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that has LangGraph; LANGGRAPH_PYTHON names one that is there."""
    if ready := os.environ.get("LANGGRAPH_PYTHON"):
        return ready
    folder = tmp_path_factory.mktemp("langgraph")
    venv.create(folder, with_pip=True, symlinks=True)
    python = str(folder / "bin" / "python")
    # What it imports is compiled when it first runs: that is a small part of all.
    install = [python, "-m", "pip", "install", "-q", "--no-compile"]
    packages = ["langgraph", "langchain-openai"]
    if subprocess.run([*install, *packages], capture_output=True).returncode:
        pytest.skip("LangGraph is not to be had: allow the package index, and try again")
    return python


@reward(range=(0, 1))
def is_right(trajectory: Trajectory) -> float:
    return float(trajectory.outcome["answer"] == "42")


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("manner", ["whole", "streaming"])
async def test_a_graphs_model_node_is_the_policy(graph_python: str, manner: str) -> None:
    class Graph(AgentEpisode):
        def program(self) -> Program:
            return Program([graph_python, "-c", APP, manner], limit_s=600)

        async def collect(self) -> None:
            self.outcome["answer"] = Path(self.folder, "answer.txt").read_text()

    def policy(messages: Any) -> Message:
        last = messages[-1]
        if last.role == "tool":
            return Message("assistant", last.text)
        return Message("assistant", "", (call("add", left=20, right=22),))

    task = Task("1", "What is 20 and 22?")
    environment = Environment(tasks=[task], rewards=[is_right], episode=Graph)
    async with environment:
        trajectory = await environment.rollout(environment.tasks["train"][0], ScriptedModel(policy))

    assert trajectory.failure is None
    assert trajectory.reward == 1.0
    assert [each.role for each in trajectory.messages()] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert len(list(trajectory.leaves())) == 1
