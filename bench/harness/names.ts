/**
 * The streams of a run and whose they are: a principal may have 100 open streams, so every 50th stream
 * begins a new one.
 */

const STREAMS_PER_PRINCIPAL = 50;

export function streamNameOf(stream: number): string {
  return `bench-${stream}`;
}

/** The benchmark's server takes the API key for the principal's name. */
export function apiKeyOf(stream: number): string {
  return `principal-${Math.floor(stream / STREAMS_PER_PRINCIPAL)}`;
}
