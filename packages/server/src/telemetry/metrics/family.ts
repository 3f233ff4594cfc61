import type { MetricAttributes, Series } from './metric.ts';

/** So many series a metric has at most: OpenTelemetry's own limit. */
const MOST_SERIES = 2000;

/** The attributes of the series that counts what has found no place any more (OpenTelemetry's convention). */
const OVERFLOW: MetricAttributes = { 'otel.metric.overflow': true };

/**
 * The series of one metric, by what they are told apart by. What is counted comes with names that others have chosen, so
 * that there may be no end of them: beyond the limit all that is new is counted in one series more, without its names.
 */
export class Family<Cell extends { readonly attributes: MetricAttributes }> {
  readonly #make: (attributes: MetricAttributes) => Cell;
  readonly #most: number;
  readonly #cells = new Map<string, Cell>();
  #overflow: Cell | undefined = undefined;

  /** `most`: series, the one for all others among them. */
  constructor(make: (attributes: MetricAttributes) => Cell, most: number = MOST_SERIES) {
    this.#make = make;
    this.#most = most;
  }

  /** The series with this key. Part of the hot path. */
  get(key: string): Cell | undefined {
    return this.#cells.get(key);
  }

  /** The series for a key that has none yet: a new one, or that of all others. */
  open(key: string, attributes: () => MetricAttributes): Cell {
    if (this.#cells.size >= this.#most - 1) {
      this.#overflow ??= this.#make(OVERFLOW);
      return this.#overflow;
    }
    const cell = this.#make(attributes());
    this.#cells.set(key, cell);
    return cell;
  }

  /** All series as they are now. */
  series<Value>(read: (cell: Cell) => Value): Series<Value>[] {
    const cells = this.#overflow ? [...this.#cells.values(), this.#overflow] : [...this.#cells.values()];
    return cells.map((cell) => ({ attributes: cell.attributes, value: read(cell) }));
  }
}
