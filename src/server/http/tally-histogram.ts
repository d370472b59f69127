/**
 * A `Tally` as a histogram of Prometheus: its buckets are read when somebody asks, and cost nothing before.
 */
import { Histogram } from "prom-client";
import type { Tally } from "../counters.ts";

interface Value {
  readonly metricName: string;
  readonly labels: Readonly<Record<string, string | number>>;
  readonly value: number;
}

interface Exported {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  values: readonly Value[];
}

export class TallyHistogram extends Histogram {
  readonly #name: string;
  readonly #help: string;
  readonly #tally: Tally;

  constructor(name: string, help: string, tally: Tally) {
    super({ name, help, buckets: [...tally.bounds], registers: [] });
    this.#name = name;
    this.#help = help;
    this.#tally = tally;
  }

  /** What the registry asks a metric for; our numbers instead of the empty ones of the class. */
  async getForPromString(): Promise<Exported> {
    const { bounds, counts, sum, count } = this.#tally;
    const metricName = `${this.#name}_bucket`;
    let under = 0;
    const buckets = bounds.map((le, at) => {
      under += counts[at] ?? 0;
      return { metricName, labels: { le }, value: under };
    });
    const values = [
      ...buckets,
      { metricName, labels: { le: "+Inf" }, value: count },
      { metricName: `${this.#name}_sum`, labels: {}, value: sum },
      { metricName: `${this.#name}_count`, labels: {}, value: count },
    ];
    return { name: this.#name, help: this.#help, type: "histogram", values };
  }
}
