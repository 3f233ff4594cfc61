/**
 * Bounds what the exchanges under way hold together of their bodies, decoded or not. One holds a few MiB per direction at
 * most, but there may be thousands: what comes when the budget is used up is not recorded, and the record says that it was cut.
 */
export class TeeBudget {
  #left: number;

  constructor(bytes: number) {
    this.#left = bytes;
  }

  /** Takes as much. False: there is not enough, and nothing was taken. */
  take(bytes: number): boolean {
    if (bytes > this.#left) return false;
    this.#left -= bytes;
    return true;
  }

  /** Gives back what was taken. */
  give(bytes: number): void {
    this.#left += bytes;
  }
}
