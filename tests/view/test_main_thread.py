"""Answers to a page: on the main thread, between cells, and stopped by an interrupt."""

from __future__ import annotations

import os
import signal
import threading
import time
import types

import pytest

from embviz.view import main_thread


@pytest.fixture
def callbacks(monkeypatch):
    """What was handed to the event loop of a kernel that is made up."""
    handed = []
    loop = types.SimpleNamespace(add_callback=lambda call, *arguments: handed.append((call, arguments)))
    monkeypatch.setattr(main_thread, "_main_loop", lambda: loop)
    return handed


def in_a_thread(call):
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_a_message_heard_on_another_thread_is_answered_on_the_main_one(callbacks):
    answered_on = []
    in_a_thread(
        lambda: main_thread.answer_between_cells(lambda: answered_on.append(threading.current_thread()))
    )
    assert answered_on == []  # the loop calls back when no cell is running
    for call, arguments in callbacks:
        call(*arguments)
    assert answered_on == [threading.main_thread()]


def test_on_the_main_thread_and_outside_a_kernel_the_answer_comes_at_once():
    answers = []
    main_thread.answer_between_cells(lambda: answers.append(1))
    in_a_thread(lambda: main_thread.answer_between_cells(lambda: answers.append(2)))
    assert answers == [1, 2]


def test_an_interrupt_reaches_the_answer_although_the_kernel_ignores_it_between_cells():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    stopped = []

    def endless():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                pass
        except KeyboardInterrupt:
            stopped.append(True)

    try:
        main_thread.answer_between_cells(endless)
        os.kill(os.getpid(), signal.SIGINT)  # ignored again
        assert stopped == [True]
    finally:
        signal.signal(signal.SIGINT, before)


def test_where_no_cell_runs_a_message_is_answered_before_its_handler_is_left(monkeypatch):
    def call_soon(call):
        threading.Timer(0.01, call).start()

    monkeypatch.setattr(main_thread, "PATIENCE", 10)
    monkeypatch.setattr(main_thread, "_main_loop", lambda: types.SimpleNamespace(add_callback=call_soon))
    answers = []

    def answer():
        time.sleep(0.1)
        answers.append(True)

    in_a_thread(lambda: main_thread.answer_between_cells(answer))
    assert answers == [True]
