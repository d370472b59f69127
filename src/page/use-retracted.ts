/**
 * What a step has taken back since the last look: the texts that were on the screen and count no longer.
 *
 * Parts come in order and grow at their end, so what was taken back is behind the place where the old ones and the new ones part.
 */
import { useEffect, useRef, useState } from "react";
import type { ViewPart } from "../turn/view.ts";
import { retractedText } from "./retracted-text.ts";

/** How long what was taken back is still seen, struck through. */
const FADE_MS = 400;

/** The texts of an answer, one after the other. */
export function spoken(parts: readonly ViewPart[]): string {
  return parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n");
}

/** Undefined most of the time. */
export function useRetracted(parts: readonly ViewPart[]): string | undefined {
  const text = spoken(parts);
  const last = useRef(text);
  const [gone, setGone] = useState<string>();
  const retracted = retractedText(last.current, text);
  useEffect(() => {
    last.current = text;
    if (retracted === "") return;
    setGone(retracted);
  }, [text, retracted]);
  useEffect(() => {
    if (gone === undefined) return undefined;
    const timer = setTimeout(() => setGone(undefined), FADE_MS);
    return () => clearTimeout(timer);
  }, [gone]);
  // At once: a page that had become shorter for a moment would have been scrolled.
  return retracted === "" ? gone : retracted;
}
