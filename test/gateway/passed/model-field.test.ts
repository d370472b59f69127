/** The model is found wherever a body names it, however the body is cut into pieces. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { FormModel } from "../../../src/gateway/passed/form-model.ts";
import { JsonModel } from "../../../src/gateway/passed/json-model.ts";
import { type ModelFinder, NAME_CHARS_MAX } from "../../../src/gateway/passed/model-field.ts";

/** What the body is with the model under another name, pushed in pieces that end at these places. */
function renamed(finder: ModelFinder, body: Buffer, cuts: readonly number[], name: string): string {
  const places = [...cuts.map((cut) => cut % (body.length + 1)), body.length].toSorted((a, b) => a - b);
  let from = 0;
  for (const to of places) {
    finder.push(body.subarray(from, to));
    from = to;
  }
  finder.end();
  const { found } = finder;
  assert.ok(found !== undefined);
  return Buffer.concat([
    body.subarray(0, found.from),
    finder.written(name),
    body.subarray(found.to),
  ]).toString("latin1");
}

const cuts = fc.array(fc.nat(), { maxLength: 8 });

test("in JSON: only the outermost member counts, whatever stands around it", () => {
  const other = fc.dictionary(
    fc.string({ unit: "binary" }).filter((name) => name.toLowerCase() !== "model"),
    fc.jsonValue(),
  );
  fc.assert(
    fc.property(
      other,
      other,
      fc.string({ minLength: 1, maxLength: 80, unit: "binary" }),
      cuts,
      (before, after, model, at) => {
        const inner = (object: object): string =>
          JSON.stringify({ x: { model: "no" }, ...object }).slice(1, -1);
        const text = `{${inner(before)}, "model" :${JSON.stringify(model)},${inner(after)}}`;
        const finder = new JsonModel();
        const told = renamed(finder, Buffer.from(text), at, "new");
        assert.equal(finder.found?.name, model.toWellFormed());
        const place = text.lastIndexOf(`"model" :${JSON.stringify(model)}`);
        const expected = `${text.slice(0, place)}"model" :"new"${text.slice(place + 9 + JSON.stringify(model).length)}`;
        assert.equal(told, Buffer.from(expected).toString("latin1"));
      },
    ),
    { numRuns: 60 },
  );
});

test("in a form: among files that look like boundaries, whatever is cut", () => {
  const piece = fc.constantFrom("\r\n", "--", "x", "\r", "\r\n--", "\r\n-x", "model", '"', "\0\xff");
  const file = fc
    .array(piece, { maxLength: 30 })
    .map((pieces) => pieces.join(""))
    .filter((text) => !text.includes("--x"));
  const part = (head: string, value: string): string =>
    `--x\r\nContent-Disposition: form-data; ${head}\r\n\r\n${value}\r\n`;
  fc.assert(
    fc.property(file, file, cuts, (first, second, at) => {
      const fileHead = 'name="file"; filename="model.wav"\r\nContent-Type: audio/wav';
      const form = (model: string): string =>
        `${part(fileHead, first)}${part('name="model"', model)}${part('name="b"', second)}--x--\r\n`;
      const finder = new FormModel("x");
      const told = renamed(finder, Buffer.from(form("lab/one"), "latin1"), at, "two");
      assert.equal(finder.found?.name, "lab/one");
      assert.equal(told, form("two"));
    }),
    { numRuns: 300 },
  );
});

test("in a form: a boundary that some readers would see and others not is refused", () => {
  const head = '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n';
  const hidden = '\nContent-Disposition: form-data; name="model"\n\nlarge\n--x--';
  const whole = '\r\nContent-Disposition: form-data; name="model"\r\n\r\nlarge';
  for (const file of [`--x${hidden}`, `a\n--x${hidden}`, `a--x${hidden}`, `--x${whole}`, `a\n--x${whole}`]) {
    for (const cut of [0, head.length, head.length + 1, head.length + 3]) {
      const body = Buffer.from(`${head}${file}\r\n--x--`);
      assert.throws(() => renamed(new FormModel("x"), body, [cut], "new"), { status: 400 }, file);
    }
  }
});

test("in a form: what does not begin with its boundary is refused as soon as that is known", () => {
  const finder = new FormModel("x");
  finder.push(Buffer.from("--"));
  assert.throws(() => finder.push(Buffer.from("y")), /does not begin with its boundary/);
});

test("E8: in a form a model's name has 512 characters at the most, and a longer one is refused before its end comes", () => {
  const head = '--x\r\nContent-Disposition: form-data; name="model"\r\n\r\n';
  const longest = "m".repeat(NAME_CHARS_MAX);
  const finder = new FormModel("x");
  renamed(finder, Buffer.from(`${head}${longest}\r\n--x--`), [head.length + 100], "new");
  assert.equal(finder.found?.name, longest);
  const endless = new FormModel("x");
  endless.push(Buffer.from(head));
  // What may still be the line's end and the boundary does not count yet.
  endless.push(Buffer.from(`${longest}\r\n--x`.slice(0, -1)));
  assert.throws(
    () => {
      endless.push(Buffer.from("mmmm"));
    },
    { status: 400 },
  );
});

test("E8: in a form the head of a part has 8 KiB at the most, and a longer one is refused before its end comes", () => {
  const described = 'Content-Disposition: form-data; name="file"\r\nContent-Type: ';
  const head = described.padEnd(8 * 1024, "t");
  new FormModel("x").push(Buffer.from(`--x\r\n${head}\r\n\r\n`));
  const refused = { status: 400, message: /head is too large/ };
  assert.throws(() => new FormModel("x").push(Buffer.from(`--x\r\n${head}t\r\n\r\n`)), refused);
  const endless = new FormModel("x");
  endless.push(Buffer.from(`--x\r\n${head}`));
  assert.throws(() => endless.push(Buffer.from("t")), refused);
});
