/**
 * Makes `dist/`: what `npm publish` ships. Removes the old one first, so that a deleted source file
 * does not live on in the package.
 */
import { spawnSync } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import { bundleInto } from "./bundled.ts";
import { bundleCommandInto } from "./command-bundle.ts";

rmSync("dist", { recursive: true, force: true });
const { status } = spawnSync("tsc", ["-p", "tsconfig.build.json"], { stdio: "inherit" });
if (status !== 0) process.exit(status ?? 1);
const manifest: unknown = JSON.parse(readFileSync("package.json", "utf8"));
const { dependencies } = Object.assign({ dependencies: {} }, manifest);
const external = Object.keys(dependencies);
await bundleInto("dist", external);
await bundleCommand();
const page = spawnSync(process.execPath, ["scripts/page.ts", "dist/page"], { stdio: "inherit" });
process.exitCode = page.status ?? 1;

/** What is started as a process or a thread of its own when a server starts; each is in the bundle, and its old place leads there. */
async function bundleCommand(): Promise<void> {
  const outdir = resolve("dist/command");
  const files = ["cli/main", "store/sqlite/worker"];
  const entryPoints = Object.fromEntries(files.map((file) => [file.replaceAll("/", "-"), `dist/${file}.js`]));
  await bundleCommandInto({
    entryPoints,
    outdir,
    extension: ".js",
    own: /\/dist\/.*\.js$/,
    external,
    keptAt: (path) => /\/vendor\/[^/]+\.js$/.exec(path)?.[0].replace(/^/, ".."),
    placeOf: (path) => {
      const [folder, file] = [relative(outdir, dirname(path)), relative(outdir, path)].map((way) =>
        JSON.stringify(way),
      );
      return {
        dirname: `(import.meta.dirname + "/" + ${folder})`,
        filename: `(import.meta.dirname + "/" + ${file})`,
        url: `new URL(${file}, import.meta.url).href`,
      };
    },
  });
  for (const file of files) {
    const way = relative(dirname(`dist/${file}.js`), `dist/command/${file.replaceAll("/", "-")}.js`);
    writeFileSync(`dist/${file}.js`, `import "${way}";\n`);
  }
}
