#!/usr/bin/env node
/**
 * The `holdfast` command as npm finds it, in a package and in a checkout.
 *
 * A package has the built `dist/` and no `src/`; a checkout has `src/`, which Node runs as it is, and needs no build.
 */
import { existsSync } from "node:fs";

const source = new URL("../src/cli/main.ts", import.meta.url);
await import(existsSync(source) ? source.href : new URL("../dist/cli/main.js", import.meta.url).href);
