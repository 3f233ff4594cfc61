/** A JSON-RPC error as it goes out. `data` is JSON text. */
export interface RpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: string;
}
