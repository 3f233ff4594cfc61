import { setImmediate as nextTurn } from 'node:timers/promises';

/** After as many bytes of bodies read in one go, others have their turn. */
const BYTES_PER_TURN = 1024 * 1024;

/** Keeps who reads many bodies from holding up everything else: small ones share a turn of the event loop. */
export class ReadingTurns {
  #bytes = 0;

  /** Before a body of so many bytes is read. Others have their turn first where it is too much for this one. */
  async before(bytes: number): Promise<void> {
    this.#bytes += bytes;
    if (this.#bytes <= BYTES_PER_TURN) return;
    this.#bytes = bytes;
    await nextTurn();
  }
}
