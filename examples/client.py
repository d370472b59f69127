#!/usr/bin/env python3
"""A client of Holdfast's gateway with the standard library alone: an answer that outlives its connections.

    HOLDFAST_API_KEY=... python3 examples/client.py "count to 20 every 100 ms"

Cut the network or restart the server while it prints: it reads on from the very next word. It never asks a second time:
the request has an idempotency key, and what follows a word is fetched by the path that the first response names.
"""

import http.client
import json
import os
import sys
import time
import urllib.parse
import uuid

URL = os.environ.get("HOLDFAST_URL", "http://127.0.0.1:4600")
API_KEY = os.environ.get("HOLDFAST_API_KEY", "")
TRIES_MAX = 60
TIMEOUT_S = 60


class Refused(Exception):
    """The server has answered, and said no."""


class Answer:
    """One answer: which event was read last, and where the rest of it can be had."""

    def __init__(self, question, model="rehearsal"):
        self.body = json.dumps(
            {"model": model, "messages": [{"role": "user", "content": question}], "stream": True}
        )
        self.key = str(uuid.uuid4())
        self.resume_path = None
        self.last_id = None
        self.is_over = False

    def words(self):
        """Yields the text piece by piece, over as many connections as it takes."""
        tries = 0
        while not self.is_over:
            try:
                for piece in self._read():
                    tries = 0
                    yield piece
                if not self.is_over:
                    raise ConnectionError("the response ended in the middle")
            except (OSError, http.client.HTTPException) as trouble:
                tries += 1
                if tries > TRIES_MAX:
                    raise
                print(f"[{trouble}: reading on]", file=sys.stderr)
                time.sleep(min(0.1 * 2**tries, 2))

    def _read(self):
        """The events of one connection: of the question, or of what follows the last event."""
        target = urllib.parse.urlsplit(URL)
        kind = http.client.HTTPSConnection if target.scheme == "https" else http.client.HTTPConnection
        connection = kind(target.hostname, target.port, timeout=TIMEOUT_S)
        headers = {"authorization": f"Bearer {API_KEY}"}
        try:
            if self.resume_path is not None and self.last_id is not None:
                headers["last-event-id"] = self.last_id
                connection.request("GET", target.path + self.resume_path, headers=headers)
            else:
                headers |= {"content-type": "application/json", "idempotency-key": self.key}
                connection.request("POST", target.path + "/v1/chat/completions", self.body, headers)
            response = connection.getresponse()
            if response.status >= 500:
                raise ConnectionError(f"the server says {response.status}")
            if response.status != 200:
                raise Refused(response.read().decode())
            self.resume_path = response.headers.get("x-holdfast-resume", self.resume_path)
            yield from self._events(response)
        finally:
            connection.close()

    def _events(self, response):
        """Server-sent events: an id and a line of data each, with an empty line behind them."""
        event_id = None
        data = []
        for raw in response:
            line = raw.decode().rstrip("\r\n")
            if line.startswith("id:"):
                event_id = line[3:].strip()
            elif line.startswith("data:"):
                data.append(line[5:].strip())
            elif line == "" and data:
                text = self._text_of("\n".join(data))
                # Only a whole event counts: a cut before its empty line brings it again.
                self.last_id = event_id or self.last_id
                data = []
                if text:
                    yield text
                if self.is_over:
                    return

    def _text_of(self, data):
        if data == "[DONE]":
            self.is_over = True
            return ""
        chunk = json.loads(data)
        if "error" in chunk:
            error = chunk["error"]
            # What cannot succeed is not called a server error.
            kind = ConnectionError if error.get("type") == "server_error" else Refused
            raise kind(error.get("message", data))
        return "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])


def main():
    question = " ".join(sys.argv[1:]) or "count to 20 every 100 ms"
    try:
        for piece in Answer(question).words():
            print(piece, end="", flush=True)
        print()
    except Refused as refusal:
        sys.exit(f"refused: {refusal}")


if __name__ == "__main__":
    main()
