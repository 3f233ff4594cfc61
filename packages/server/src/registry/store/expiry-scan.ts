/**
 * Removes expired records from memory after as many changes as there are records: the scan then costs no more than the changes
 * before it.
 */
export class ExpiryScan {
  readonly #scan: () => number;
  #changesLeft = 0;

  /** `scan` removes the expired records, and returns the number of those that remain. */
  constructor(scan: () => number) {
    this.#scan = scan;
  }

  onChanges(count: number): void {
    this.#changesLeft -= count;
    if (this.#changesLeft <= 0) this.run();
  }

  run(): void {
    this.#changesLeft = this.#scan();
  }
}
