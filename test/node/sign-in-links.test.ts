/** Links that sign in one browser: once, for ten minutes, by the process that made them. */
import assert from "node:assert/strict";
import { hash } from "node:crypto";
import { test } from "node:test";
import { SignInLinks } from "../../src/node/sign-in-links.ts";
import { policyOf } from "../../src/server/http/front-page.ts";

const tokenOf = (link: string): string => link.slice("#sign-in=".length);

test("E4, E7: a token is good once, for ten minutes", async () => {
  let nowMs = 0;
  const links = new SignInLinks(() => nowMs);
  const make = async (): Promise<string> => "key";
  const token = tokenOf(links.issue());
  assert.match(token, /^[\w-]{43}$/);
  assert.equal(await links.redeem(`${token}x`, make), undefined);
  assert.deepEqual(await Promise.all([links.redeem(token, make), links.redeem(token, make)]), [
    "key",
    undefined,
  ]);
  const old = tokenOf(links.issue());
  nowMs = 10 * 60_000;
  assert.equal(await links.redeem(old, make), undefined);
  assert.equal(await links.redeem(old, make), undefined);
});

test("a store that is away costs nobody a link", async () => {
  const links = new SignInLinks(() => 0);
  const token = tokenOf(links.issue());
  await assert.rejects(links.redeem(token, () => Promise.reject(new Error("the store is away"))));
  assert.equal(await links.redeem(token, async () => "key"), "key");
});

test("so many links are good at a time; beyond, the oldest is not", async () => {
  const links = new SignInLinks(() => 0);
  const tokens = Array.from({ length: 17 }, () => tokenOf(links.issue()));
  const made = await Promise.all(tokens.map((token) => links.redeem(token, async () => "key")));
  assert.deepEqual(made, [undefined, ...Array.from({ length: 16 }, () => "key")]);
});

test("the policy of a page names its script and its style by what is in them", () => {
  const policy = policyOf("<style>a{}</style><script type=module>go()</script>");
  const sha256 = (text: string): string => `'sha256-${hash("sha256", text, "base64")}'`;
  assert.ok(
    policy.startsWith(`default-src 'none'; script-src ${sha256("go()")}; style-src ${sha256("a{}")}; `),
    policy,
  );
  assert.notEqual(policyOf("<style>a{}</style><script type=module>gone()</script>"), policy);
});
