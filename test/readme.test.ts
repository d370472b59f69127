/**
 * The README and the documents are true: their programs run and print what is said, their commands
 * exist, their links lead somewhere, and the files they name are there.
 */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import {
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, relative } from "node:path";
import { after, test } from "node:test";
import { beginsWith, blocks, blocksRunBy, documents, notRun, testsOf, tests } from "./docs/blocks.ts";
import { entryPoints, repository } from "./docs/entry-points.ts";
import { filesNamedIn, linksOf } from "./docs/markdown.ts";
import { field } from "./tidy/repository.ts";

/** Generous: everything here takes seconds on an idle machine. */
const PROGRAM_MS = 60_000;

/** A program of a document is no test, listens where nothing else does, and asks no model that somebody pays for. */
const ALONE = {
  NODE_TEST_CONTEXT: undefined,
  HOLDFAST_PORT: "0",
  PORT: "0",
  HOLDFAST_HOME_KEY: Buffer.alloc(32, 7).toString("base64url"),
  HOLDFAST_URL: undefined,
  HOLDFAST_API_KEY: undefined,
  OPENAI_API_KEY: undefined,
  ANTHROPIC_API_KEY: undefined,
  GOOGLE_GENERATIVE_AI_API_KEY: undefined,
  OLLAMA_HOST: undefined,
};

async function run(program: string, args: readonly string[], cwd: string): Promise<string> {
  const bin = join(repository, "node_modules/.bin");
  const path = `${bin}${delimiter}${process.env["PATH"] ?? ""}`;
  const env = { ...process.env, PATH: path, ...ALONE };
  return new Promise((resolve, reject) => {
    execFile(program, args, { cwd, env, timeout: PROGRAM_MS }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${program} ${args.join(" ")}\n${stdout}${stderr}`, { cause: error }));
    });
  });
}

function withoutSpaceAtLineEnds(output: string): string {
  return output.replaceAll(/ +$/gm, "").trimEnd();
}

interface Program {
  readonly document: string;
  readonly folder: string;
  readonly file: string;
  /** What the document says that it prints. */
  readonly said: string;
}

const work = mkdtempSync(join(tmpdir(), "holdfast-docs-"));
after(() => rmSync(work, { recursive: true, force: true }));

const programs: readonly Program[] = documents.flatMap(({ path }, at) => {
  const own = blocksRunBy("test/readme.test.ts").filter(({ document }) => document === path);
  const program = own
    .filter(({ language }) => language === "ts")
    .toSorted((a, b) => Number(b.runsFirst) - Number(a.runsFirst))
    .map((block) => block.text);
  if (program.length === 0) return [];
  const folder = join(work, String(at));
  mkdirSync(folder);
  const file = join(folder, "program.ts");
  writeFileSync(file, program.join("\n\n"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  symlinkSync(join(repository, "node_modules"), join(folder, "node_modules"));
  const said = own.filter(({ language }) => language === "text").map((block) => block.text);
  return [{ document: path, folder, file, said: said.join("\n") }];
});

/** All programs at once: most of what is checked is ours, and the same for each. Resolves with what there is to say against them. */
async function typeCheck(): Promise<string> {
  writeFileSync(join(work, "tsconfig.json"), JSON.stringify(configOf(programs.map(({ file }) => file))));
  return run("tsc", ["-p", work, "--pretty", "false"], repository).then(
    () => "",
    (failure: unknown) => String(failure),
  );
}

let checked: Promise<string> | undefined;

for (const { document, folder, file, said } of programs) {
  test(`the program of ${document} runs, prints what is said, and type-checks`, async () => {
    checked ??= typeCheck();
    const hook = join(repository, "test/docs/resolve-holdfast.ts");
    const [output, faults] = await Promise.all([
      run(process.execPath, [`--import=${hook}`, file], folder),
      checked,
    ]);
    assert.equal(withoutSpaceAtLineEnds(output), withoutSpaceAtLineEnds(said));
    const named = programs.filter((program) => faults.includes(relative(repository, program.file)));
    // What names none of them is a fault of all.
    assert.ok(faults === "" || (named.length > 0 && named.every((program) => program.file !== file)), faults);
  });
}

function configOf(files: readonly string[]): unknown {
  const installed = join(repository, "node_modules");
  const paths: Record<string, string[]> = {};
  for (const [name, source] of entryPoints) paths[name] = [source];
  return {
    extends: join(repository, "tsconfig.json"),
    compilerOptions: {
      typeRoots: [join(installed, "@types")],
      paths,
    },
    include: files,
  };
}

test("no code block is written in a way that is not seen", () => {
  for (const { path, text } of documents) {
    const fences = text.match(/^\s*(?:```|~~~)/gm)?.length ?? 0;
    assert.equal(blocks.filter(({ document }) => document === path).length * 2, fences, path);
  }
});

test("every block of the documents is run by one test, or says why it is not", () => {
  for (const block of blocks) {
    const by = testsOf(block);
    const isListed = notRun.some(({ what }) => beginsWith(block, what));
    const place = `${block.document}:${block.line}, a block of ${block.language || "no language"}`;
    if (block.language === "sh") assert.equal(by.length, 1, place);
    else assert.equal(by.length + Number(isListed), 1, `${place}, is run by ${by.join() || "no test"}`);
  }
});

/** Only falls: a block that is new runs in a test. */
const NOT_RUN_MAX = 2;

test("no more blocks than before are without a test", () => {
  assert.ok(
    notRun.length <= NOT_RUN_MAX,
    `${notRun.length} kinds of blocks are not run, at most ${NOT_RUN_MAX}`,
  );
});

test("what is said to be run, the named test takes; what is said not to be run is there, with a reason", () => {
  for (const path of tests) {
    assert.ok(readFileSync(join(repository, path), "utf8").includes(`blocksRunBy("${path}")`), path);
  }
  for (const { what, why } of notRun) {
    const lines = blocks.flatMap(({ text }) => text.split("\n"));
    assert.ok(
      blocks.some((block) => beginsWith(block, what)) || lines.some((line) => line.includes(what)),
      what,
    );
    assert.ok(why.length > 10, `${what}: ${why}`);
  }
});

test("the README shows the recording of the demo on its first screen, and has at most 200 lines", () => {
  const readme = documents.find(({ path }) => path === "README.md")?.text ?? "";
  assert.ok(readme.trimEnd().split("\n").length <= 200);
  assert.ok(readme.split("\n").slice(0, 15).join("\n").includes("](docs/images/demo.svg)"));
  const recording = readFileSync(join(repository, "docs/images/demo.svg"), "utf8");
  assert.match(recording, />The proof holds: nothing lost, no tool ran twice\.<\/text>/);
});

test("the program in fifteen lines and the tools in 20 are no longer than that", () => {
  for (const [document, most] of [
    ["README.md", 15],
    ["docs/PROGRAMS.md", 20],
  ] as const) {
    const first = blocks.find((block) => block.document === document && block.language === "ts")?.text ?? "";
    const lines = first.split("\n").filter((line) => line.trim() !== "").length;
    assert.ok(lines > 5 && lines <= most, `${document}: ${lines} lines`);
  }
});

test("the changelog has a section for the version of the package", () => {
  const manifest: unknown = JSON.parse(readFileSync(join(repository, "package.json"), "utf8"));
  const changelog = documents.find(({ path }) => path === "CHANGELOG.md")?.text ?? "";
  assert.ok(changelog.includes(`\n## ${String(field(manifest, "version"))}\n`));
});

test("the README names every example", () => {
  const readme = documents.find(({ path }) => path === "README.md")?.text ?? "";
  for (const example of globSync("examples/*.ts", { cwd: repository })) {
    assert.ok(readme.includes(`\nnpx node ${example} `), example);
  }
});

test("every link within the repository leads to a file", () => {
  for (const { path, text } of documents) {
    for (const link of linksOf(text)) {
      assert.ok(existsSync(join(repository, dirname(path), link)), `${path} links to ${link}`);
    }
  }
});

/** As GitHub makes it of a heading. */
function anchorOf(heading: string): string {
  const plain = heading
    .replaceAll(/[`*_]|\[([^\]]*)\]\([^)]*\)/g, "$1")
    .trim()
    .toLowerCase();
  return plain.replaceAll(/[^\p{L}\p{N}\s_-]/gu, "").replaceAll(/\s/g, "-");
}

test("every link to a heading leads to one", () => {
  const anchors = new Map(
    documents.map(({ path, text }) => [
      path,
      new Set([...text.matchAll(/^#{1,6} (.*)$/gm)].map(([, heading = ""]) => anchorOf(heading))),
    ]),
  );
  let links = 0;
  for (const { path, text } of documents) {
    for (const [, file = "", anchor = ""] of text.matchAll(/\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)/g)) {
      links++;
      const target = file === "" ? path : join(dirname(path), file);
      assert.ok(anchors.get(target)?.has(anchor), `${path} links to ${file}#${anchor}`);
    }
  }
  assert.ok(links > 50, `only ${links} links to headings`);
});

test("every file that a document names is there", () => {
  let named = 0;
  for (const { path, text } of documents) {
    for (const file of filesNamedIn(text)) {
      named++;
      assert.ok(existsSync(join(repository, file)), `${path} names ${file}`);
    }
  }
  const drawing = readFileSync(join(repository, "docs/images/walk.svg"), "utf8");
  for (const [file] of drawing.matchAll(/\bsrc\/[\w./-]+\.ts\b/g)) {
    named++;
    assert.ok(existsSync(join(repository, file)), `docs/images/walk.svg names ${file}`);
  }
  assert.ok(named > 75, `only ${named} files are named`);
});

/** Rows of the tables of invariants: `| A1 | what holds | enforced in | checked by |`. */
const INVARIANT_ROW = /^\|\s*(?<number>[A-F]\d)\s*\|.*\|(?<checks>[^|]*)\|$/gm;

test("what is said to check an invariant names its number", () => {
  const guarantees = documents.find(({ path }) => path === "docs/GUARANTEES.md")?.text ?? "";
  const simulator = globSync("test/simulation/**/*.ts", { cwd: repository })
    .map((path) => readFileSync(join(repository, path), "utf8"))
    .join("\n");
  const numbers = new Set<string>();
  for (const { groups } of guarantees.matchAll(INVARIANT_ROW)) {
    const { number = "", checks = "" } = groups ?? {};
    numbers.add(number);
    const simulated = /simulator(?: \((?<by>[A-F]\d)\))?/.exec(checks);
    const by = simulated?.groups?.["by"] ?? number;
    assert.ok(simulated === null || names(simulator, by), `the simulator does not name ${by}`);
    for (const file of filesNamedIn(checks)) {
      assert.ok(
        names(readFileSync(join(repository, file), "utf8"), number),
        `${file} does not name ${number}`,
      );
    }
  }
  assert.equal(numbers.size, 44);
});

function names(text: string, number: string): boolean {
  return new RegExp(`\\b${number}\\b`).test(text);
}
