// Original file: proto/provision.proto

export const PayloadType = {
  /**
   * The payload says where the data is.
   */
  REFERENCE: 'REFERENCE',
  /**
   * The payload is the data.
   */
  BUILTIN: 'BUILTIN',
} as const;

export type PayloadType =
  /**
   * The payload says where the data is.
   */
  | 'REFERENCE'
  | 0
  /**
   * The payload is the data.
   */
  | 'BUILTIN'
  | 1

export type PayloadType__Output = typeof PayloadType[keyof typeof PayloadType]
