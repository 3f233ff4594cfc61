// Original file: proto/health.proto


export interface HealthProbeRequest {
  /**
   * The registered entry's id, else its name.
   */
  'id'?: (string);
}

export interface HealthProbeRequest__Output {
  /**
   * The registered entry's id, else its name.
   */
  'id': (string);
}
