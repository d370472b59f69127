/** Which refusals of a provider are worth another try. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isPassing } from "../../../../src/agent/models/upstream/passing.ts";

test("a status that says later passes: no answer, too slow, in conflict, too many, and the provider's own faults", () => {
  for (const status of [0, 408, 409, 429, 500, 503, 529]) assert.ok(isPassing(status), String(status));
  for (const status of [200, 400, 401, 403, 404, 407, 410, 413, 422, 430, 499])
    assert.ok(!isPassing(status), String(status));
});
