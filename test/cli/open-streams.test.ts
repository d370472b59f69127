/** `holdfast serve --open-streams`: how many answers one API key's principal may have at once. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { bodyOf, Exchange, user } from "../gateway/openai-user.ts";
import { Cli } from "./cli-process.ts";

const MODEL = { model: "rehearsal/rehearsal" };

test("E8: one more answer than --open-streams says is 429, and there is room again when one is over", async (t) => {
  const cli = new Cli(t);
  const { url, apiKey } = await cli.serve(["--open-streams", "1"]);
  const first = new Exchange(url, bodyOf([user("count to 1000 every 20 ms")], MODEL), { apiKey });
  await first.until("10 ");
  const hello = bodyOf([user("hello")], MODEL);
  const refused = await new Exchange(url, hello, { apiKey }).reply();
  assert.deepEqual([refused.status, refused.error], [429, "rate_limit_error open_streams_limit"]);
  const path = `/v1/streams/${await first.streamId()}`;
  await new Exchange(url, undefined, { apiKey, method: "DELETE", path }).reply();
  assert.equal((await first.reply()).error, "aborted_error stopped");
  let status = 429;
  while (status === 429) ({ status } = await new Exchange(url, hello, { apiKey }).reply());
  assert.equal(status, 200);
});

test("a number of open streams that is none is refused with what it is to be", async (t) => {
  const cli = new Cli(t);
  for (const text of ["0", "20001"]) {
    const { code, stderr } = await cli.run(["serve", ...cli.inDataDir, `--open-streams=${text}`]);
    assert.notEqual(code, 0);
    assert.match(stderr, /--open-streams must be a whole number from 1 to 20000/);
  }
});
