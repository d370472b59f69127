/**
 * Builds the pages of the examples: `npx vite build examples/use-chat --config examples/pages/vite.config.ts`.
 *
 * `holdfast/react` and `holdfast/ai-sdk` are this checkout's own source here. A project that has the package needs no alias.
 */
import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const source = (path: string): string => fileURLToPath(new URL(`../../src/${path}`, import.meta.url));

// oxlint-disable-next-line import/no-default-export -- Vite asks for it
export default defineConfig({
  plugins: [react()],
  resolve: {
    alias: { "holdfast/react": source("react/index.ts"), "holdfast/ai-sdk": source("ai-sdk/index.ts") },
  },
  build: { target: "es2024", emptyOutDir: true },
});
