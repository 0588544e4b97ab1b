from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fleet", "0004_refused")]

    operations = [
        migrations.AddField(model_name="worker", name="findings", field=models.JSONField(default=list)),
        migrations.AddField(
            model_name="worker", name="examined_at", field=models.DateTimeField(blank=True, null=True)
        ),
    ]
