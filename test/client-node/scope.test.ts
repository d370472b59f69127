/**
 * Where things lie on each platform, and who may read them.
 */
import assert from "node:assert/strict";
import { chmodSync, lstatSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { test } from "node:test";
import {
  applicationDirectory,
  keyDirectory,
  makeScope,
  type Platform,
  scopePaths,
  thisPlatform,
} from "../../src/client-node/scope.ts";
import { makePrivateDirectory, readPrivateFile, writeOnce } from "../../src/client-node/private-files.ts";
import { temporaryDirectory } from "./temporary.ts";

const linux = (environment: Record<string, string> = {}): Platform => ({
  name: "linux",
  home: join("/", "h"),
  environment,
});

const modeOf = (path: string): number => lstatSync(path).mode & 0o777;

test("the application scope lies where each platform keeps application data", () => {
  const at = (...parts: string[]): string => join("/", ...parts);
  assert.equal(applicationDirectory(linux()), at("h", ".local", "share", "holdfast"));
  assert.equal(applicationDirectory(linux({ XDG_DATA_HOME: at("data") })), at("data", "holdfast"));
  assert.equal(
    applicationDirectory(linux({ XDG_DATA_HOME: "relative" })),
    at("h", ".local", "share", "holdfast"),
  );
  assert.equal(
    applicationDirectory({ ...linux(), name: "darwin" }),
    at("h", "Library", "Application Support", "holdfast"),
  );
  assert.equal(
    applicationDirectory({ ...linux({ LOCALAPPDATA: at("local") }), name: "win32" }),
    at("local", "holdfast"),
  );
});

test("keys lie apart from the data on each platform", () => {
  const platforms = [linux(), { ...linux(), name: "darwin" }, { ...linux(), name: "win32" }] as const;
  for (const platform of platforms) {
    const data = applicationDirectory(platform);
    const keys = keyDirectory(platform);
    assert.ok(!keys.startsWith(data) && !data.startsWith(keys), `${keys} and ${data}`);
  }
});

test("E4: a workspace's directory is private, and tells version control to leave it alone", (t) => {
  const workspace = temporaryDirectory(t);
  const paths = scopePaths({ scope: "workspace", directory: workspace });
  assert.equal(paths.directory, join(workspace, ".holdfast"));
  makeScope(paths, "workspace");
  makeScope(paths, "workspace");
  assert.equal(modeOf(paths.directory), 0o700);
  assert.equal(readFileSync(join(paths.directory, ".gitignore"), "utf8"), "*\n");
  assert.equal(modeOf(join(paths.directory, ".gitignore")), 0o600);
});

test("E6: a workspace whose directory is a link to elsewhere is refused", (t) => {
  const workspace = temporaryDirectory(t);
  const elsewhere = join(workspace, "elsewhere");
  mkdirSync(elsewhere, { mode: 0o755 });
  symlinkSync(elsewhere, join(workspace, ".holdfast"));
  const paths = scopePaths({ scope: "workspace", directory: workspace });
  assert.throws(() => makeScope(paths, "workspace"), { code: "unavailable", message: /not a directory/ });
  assert.equal(modeOf(elsewhere), 0o755);
});

test("a directory and a file that are open to others are closed to them", (t) => {
  const directory = temporaryDirectory(t);
  chmodSync(directory, 0o755);
  makePrivateDirectory(directory);
  assert.equal(modeOf(directory), 0o700);
  const file = join(directory, "secret");
  assert.equal(writeOnce(file, "first"), true);
  assert.equal(writeOnce(file, "second"), false);
  chmodSync(file, 0o644);
  assert.deepEqual(readPrivateFile(file), { text: "first", wasOpen: true });
  assert.deepEqual(readPrivateFile(file), { text: "first", wasOpen: false });
  assert.equal(modeOf(file), 0o600);
});

test("a directory that somebody named for the application scope keeps its mode; one that is made is private", (t) => {
  const directory = temporaryDirectory(t);
  chmodSync(directory, 0o755);
  makeScope(scopePaths({ scope: "application", directory }), "application");
  assert.equal(modeOf(directory), 0o755);
  const made = join(directory, "made");
  makeScope(scopePaths({ scope: "application", directory: made }), "application");
  assert.equal(modeOf(made), 0o700);
});

test("a directory that cannot be made is refused with what to do", (t) => {
  const file = join(temporaryDirectory(t), "file");
  writeFileSync(file, "");
  for (const scope of ["workspace", "application"] as const) {
    const paths = scopePaths({ scope, directory: join(file, "below") });
    assert.throws(() => makeScope(paths, scope), {
      code: "unavailable",
      message: /name one that you may write/,
    });
  }
});

test("E1: an empty HOME does not bring the home key into the working directory", (t) => {
  const before = process.env["HOME"];
  t.after(() => (process.env["HOME"] = before));
  process.env["HOME"] = "";
  const platform = { ...thisPlatform(), name: "linux", environment: {} };
  assert.ok(isAbsolute(keyDirectory(platform)), keyDirectory(platform));
});

test("where everything is named, no home directory is needed", () => {
  const nowhere: Platform = {
    name: "linux",
    get home(): string {
      throw new Error("nobody should ask");
    },
    environment: {},
  };
  for (const scope of ["workspace", "application"] as const) {
    assert.ok(scopePaths({ scope, directory: "somewhere" }, nowhere).database.endsWith("client.db"));
  }
});
